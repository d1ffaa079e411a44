"""The tables of a query are told from its words."""

from __future__ import annotations

import pytest

from penstock.spark.pipelines.sql_names import table_names


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("select * from readings", ["readings"]),
        ("SELECT * FROM `odd name`, b AS x, c y WHERE a.x = b.y, d", ["odd name", "b", "c"]),
        ("select a, b from x join y on x.a = y.a left join z using (a)", ["x", "y", "z"]),
        ("with w as (select 1 from x), v (a, b) as (select * from w) select * from v join y", ["x", "y"]),
        ("select (select max(a) from x) from y where b in (select b from z)", ["x", "y", "z"]),
        ("select extract(year from at), trim(both 'x' from name) from x", ["x"]),
        ("select a is distinct from b, a is not distinct from c from x", ["x"]),
        ("select 'from a', \"from b\" from x -- from c\n /* from d */", ["x"]),
        ("select * from default.prices, range(10), x", ["x"]),
        ("select * from (x join y on true), lateral explode(x.a) t", ["x", "y"]),
        ("select * from x lateral view explode(a) t as b", ["x"]),
        ("select * from stream(x) union all select * from y", ["x", "y"]),
        ("from x select a", ["x"]),
        ("select * from values (1), (2)", []),
        ("select a, b from x group by a, b order by c, d", ["x"]),
    ],
)
def test_names(query: str, names: list[str]) -> None:
    assert [table.name for table in table_names(query)] == names


def test_a_name_has_its_place() -> None:
    assert [table.offset for table in table_names("select 1\nfrom abc")] == [14]
