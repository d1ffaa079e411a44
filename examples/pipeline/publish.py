"""Devices that publish what they measure over MQTT: python publish.py --minutes 3"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from penstock.client.mqtt.client import MqttClient
from penstock.client.mqtt.options import MqttOptions

DEVICES = ("boiler", "pump", "valve")
SECONDS_BETWEEN = 5


def readings(begin: datetime, minutes: int) -> Iterator[tuple[str, str]]:
    """(device, JSON) of so many minutes; the boiler is hot in the second one, the valve does not know its temperature
    once, and the pump once sends what is no JSON."""
    for second in range(0, minutes * 60, SECONDS_BETWEEN):
        for number, device in enumerate(DEVICES):
            celsius = 40 + 10 * number + 5 * math.sin(second / 30)
            if device == "boiler" and 60 <= second < 120:
                celsius += 60
            at = (begin + timedelta(seconds=second)).isoformat()
            yield device, json.dumps({"device": device, "celsius": round(celsius, 2), "at": at})
    yield "valve", json.dumps({"device": "valve", "celsius": 9999, "at": begin.isoformat()})
    yield "pump", "?"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=1883)
    parser.add_argument("--minutes", type=int, default=3)
    given = parser.parse_args()
    begin = datetime.now(UTC).replace(second=0, microsecond=0)
    with MqttClient(MqttOptions(port=given.port)) as client:
        for device, text in readings(begin, given.minutes):
            client.publish(f"devices/{device}/reading", text, qos=1)


if __name__ == "__main__":
    main()
