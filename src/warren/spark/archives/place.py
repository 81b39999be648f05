"""Where the archive of a stream is, as seen from here, and how far the stream goes back in it."""

from __future__ import annotations

import os
from typing import Final

from warren.amqp.constants import STREAM_OFFSET
from warren.amqp.fields import Table
from warren.errors import WarrenError
from warren.spark.archives.files import files_in, first_before

# What a broker is asked with, and what it answers.
ASK: Final = "archive"
_ROOT: Final = "x-archive-root"
_FOLDER: Final = "x-archive-folder"
# For those who want nothing but what the broker holds.
NONE: Final = "none"


def folder_of(name: str, answer: Table, asked: str) -> str:
    """Empty when the stream has no archive. `asked` is the option: the folder of all archives on this machine."""
    folder, root = answer.get(_FOLDER), answer.get(_ROOT)
    if asked == NONE or folder is None or root is None:
        return ""
    path = os.path.join(asked or str(root.value), str(folder.value))
    first = answer[STREAM_OFFSET].value
    if isinstance(first, int) and first > 0 and not os.path.isdir(path):
        raise WarrenError(
            f"the archive of {name!r} is not here: its broker writes it to {root.value!s}/{folder.value!s}; "
            "give option archive the folder that is shared with it, or archive=none for what the broker still holds"
        )
    return path


def first_offset(folder: str, broker_first: int) -> int:
    return first_before(files_in(folder), broker_first) if folder else broker_first


def first_since(folder: str, milliseconds: int, broker_first: int, broker_since: int) -> int:
    """Of the oldest message stored then or later, wherever it is."""
    if not folder or broker_since > broker_first:
        return broker_since
    # Loaded only now: few look for a time in an archive, and Parquet takes a while.
    from warren.spark.archives.read import offset_since

    found = offset_since(files_in(folder), milliseconds)
    return broker_since if found is None else min(max(found, first_offset(folder, broker_first)), broker_since)
