"""Files of streams on their way into an archive: which, and where to.

Retention asks for it before it deletes a file. The loop only notes what is wanted; a thread writes the archive
(server/turn/archiver.py), and the file goes once that is durable.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from warren.store.stream_format import file_name

if TYPE_CHECKING:
    from warren.store.stream import DiskStreamLog
    from warren.store.stream_segment import StreamSegment

# Of a folder's name; file systems allow 255 bytes.
_NAME_MAX: Final = 200


def archive_folder(vhost: str, stream: str, incarnation: str) -> str:
    """Below the folder of all archives. A stream that is deleted and declared again numbers its messages anew."""
    return f"{_one_name(vhost)}/{_one_name(stream)}/{_one_name(incarnation)}"


def _one_name(text: str) -> str:
    raw = text.encode("utf-8", "surrogateescape")
    name = quote(raw, safe="")
    if name.strip(".") == "":
        # Empty, or a way up.
        name = "%" + name.replace(".", "%2E")
    if len(name) <= _NAME_MAX:
        return name
    return f"{name[: _NAME_MAX - 33]}~{hashlib.sha256(raw).hexdigest()[:32]}"


class ArchiveJob:
    """One file of a stream, which nobody writes to any more. Nothing in it changes while a thread works on it."""

    def __init__(self, log: DiskStreamLog, segment: StreamSegment) -> None:
        self.log = log
        self.segment = segment
        self.root = log.archive_root
        self.folder = log.archive_folder
        self.stream = log.queue.name
        self.source = file_name(segment.incarnation, int(segment.number))
        self.seed = int(segment.seed)
        self.size = int(segment.durable)
        self.header_size = int(segment.header_size)
        self.first_offset = int(segment.first_offset)
        self.end_offset = int(segment.end_offset)
