"""The scene with its pipeline: what devices publish over MQTT comes back through Spark as an alert, a table, a page."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.cli import example

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipeline" / "devices.yaml"


def test_an_alert_comes_back_over_mqtt_and_a_table_and_a_page_are_written(tmp_path: Path) -> None:
    place = tmp_path / "data"
    said = example("scene", "--data", place, "--seconds", "3", "--devices", "3", "--pipeline", EXAMPLE).stdout.decode()
    assert re.search(r"alert, over MQTT: pump-1 .* 1\d\d|9\d", said), said
    assert re.search(r'per_minute: .*"rows":\s?[1-9]', said), said
    page = re.search(r"a report of the queues: (\S+)", said)
    assert page is not None, said
    assert "readings" in Path(urlsplit(page[1]).path).read_text()
    assert "1 in the dead letters, none lost" in said
