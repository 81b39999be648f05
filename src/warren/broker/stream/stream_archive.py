"""Where the archive of a stream is, told to a consumer that asks: AMQP has no other way to ask a queue for anything.

A consumer with `x-stream-offset: archive` gets one message without a body. Its headers say which folder retention
writes to, and where the stream in the broker begins.
"""

from __future__ import annotations

from typing import Final

from warren.amqp.constants import STREAM_OFFSET
from warren.amqp.fields import Field, Table
from warren.amqp.frames import content_frames
from warren.amqp.properties import Properties, encode_properties
from warren.broker.message import Origin
from warren.broker.queue.stream_log import KEPT_CHANNEL, StreamCursor, StreamLog, StreamRecord

_FRAME_MAX: Final = 131072


class ArchiveNotice(StreamCursor):
    def __init__(self, log: StreamLog) -> None:
        super().__init__(log.first_offset)
        self._log = log
        self._is_told = False

    def next(self) -> StreamRecord | None:
        if self._is_told:
            return None
        self._is_told = True
        log = self._log
        headers: Table = {STREAM_OFFSET: Field("l", log.first_offset)}
        if log.archives and log.archive_folder:
            headers["x-archive-root"] = Field("S", log.archive_root)
            headers["x-archive-folder"] = Field("S", log.archive_folder)
        suffix = Origin("", [""]).suffix
        content = content_frames(KEPT_CHANNEL, encode_properties(Properties(headers=headers)), b"", _FRAME_MAX)
        return StreamRecord(log.first_offset, 0, None, len(suffix), suffix + content)
