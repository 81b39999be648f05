"""Files of this machine that are there as a whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(target: Path, draft: Path) -> Iterator[BinaryIO]:
    """Written as `draft`, which readers pass over; under its own name once all of it is on disk."""
    try:
        with draft.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    os.rename(draft, target)


def write_text(target: Path, text: str) -> None:
    with whole_file(target, target.with_name(f"{target.name}.new")) as file:
        file.write(text.encode())
