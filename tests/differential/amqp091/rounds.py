"""New scripts against RabbitMQ and Penstock: `python -m tests.differential.amqp091.rounds --count 500 --seed 1`.

A script that differs is made as short as may be, and printed as a program."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.differential.amqp091.brokers import both
from tests.differential.amqp091.compare import judged


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    differing = 0
    with tempfile.TemporaryDirectory() as directory, both(Path(directory)) as (reference, here):
        for seed in range(options.seed, options.seed + options.count):
            if (found := judged(reference, here, seed)) is not None:
                differing += 1
                print(found, flush=True)
    print(f"{options.count} scripts, {differing} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
