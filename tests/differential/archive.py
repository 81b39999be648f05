"""The recording of RabbitMQ that is kept in the repository, so that nobody needs a RabbitMQ to compare with."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Final

from tests.differential.recording import Recording

VERSION: Final = "3.10.8"
FILE: Final = Path(__file__).with_name(f"rabbitmq-{VERSION}.json")


@cache
def load(file: Path = FILE) -> dict[str, Recording]:
    recordings: dict[str, Recording] = json.loads(file.read_text())
    return recordings


def save(recordings: dict[str, Recording], file: Path = FILE) -> None:
    # In the order of names: a session that moves to another place must not touch the file.
    file.write_text(json.dumps(dict(sorted(recordings.items())), indent=1, ensure_ascii=False) + "\n")
