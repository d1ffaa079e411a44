"""`penstock sql`: questions about queues, answered by DuckDB."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING

import click

from penstock.cli.arguments import size_option
from penstock.cli.output import output_option
from penstock.cli.table_source import Source, source_options

if TYPE_CHECKING:
    from penstock.tables.sql.query import Answer

# What a person looks at; programs get all rows unless they say otherwise.
_TABLE_ROWS = 1_000


@click.command()
@click.argument("query", metavar="QUERY")
@click.option(
    "-n",
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    help=f"Print at most N rows.  [default: {_TABLE_ROWS} as a table, else all]",
)
@click.option("--bytes", "as_bytes", is_flag=True, help="Return key, value and header values as BLOB instead of text.")
@size_option("--memory", "Memory DuckDB may use before it spills to temporary files.  [default: 1GiB]")
@source_options
@output_option("table", "json", "csv")
def sql(source: Source, query: str, limit: int | None, as_bytes: bool, memory: int | None, output: str) -> None:
    """Query queues with SQL. Needs penstock[sql].

    Every queue is a table with the same name; put names with characters other than letters, digits and _ in double
    quotes. Columns: partition, offset (in double quotes, because it is a reserved word), timestamp, key, value, topic,
    headers, queue, timestampType. Only the columns that a query uses are read, and conditions on partition, offset and
    timestamp limit which part of a queue is read. Times are in UTC. QUERY can be - to read it from standard input.

    \b
    Examples:
      penstock sql "select count(*) from orders" --data ./data
      penstock sql "select key, count(*) from orders where timestamp > now() - interval 1 hour
                    group by key order by 2 desc limit 10" --data ./data
      penstock sql "select value::json->>'total' as total from orders limit 5" --data ./data -o csv
      penstock sql 'select * from "eu/orders" where partition = 3 and "offset" >= 100' --url grpc://127.0.0.1:8815
      penstock sql "copy (select * from orders) to 'orders.parquet'" --data ./data
    """
    from penstock.tables.sql.query import MEMORY_BYTES, QueryOptions, asked

    text = sys.stdin.read() if query == "-" else query
    with asked(source, text, QueryOptions(memory or MEMORY_BYTES, as_bytes)) as answer:
        _print(answer, output, limit)


def _print(answer: Answer, output: str, limit: int | None) -> None:
    from penstock.cli.sql.rows import print_rows

    most = limit or (_TABLE_ROWS if output == "table" else None)
    rows = answer.rows()
    print_rows(answer.columns, islice(rows, most), output)
    if limit is None and next(rows, None) is not None:
        click.echo(
            f"penstock: only the first {most} rows are shown: use --limit N for more, -o csv or -o json for all",
            err=True,
        )
