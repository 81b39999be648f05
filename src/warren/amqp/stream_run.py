"""Many messages of a stream in one delivery, for a consumer that asks for it with `x-stream-runs`.

What goes over the wire is a run of whole records as they stand in a file of the stream (store/stream_format.py): the
broker takes none of them apart, and whoever receives them checks their checksums.

    body    version(2) seed of the file(4) position in the file(8) records; the last one may be cut off

A run is told from a message by its exchange, whose name no publisher can use. It is one body frame.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be, write_i64_be
from mypy_extensions import i64

from warren.amqp.constants import FRAME_BODY, FRAME_END
from warren.amqp.frames import begin_frame, begin_header
from warren.amqp.numbers import write_u16, write_u32
from warren.errors import FrameError

RUNS_ARGUMENT: Final = "x-stream-runs"
# Of a message that is sent alone to one who gives that argument, behind its offset: when it was stored, in
# milliseconds. A record in a run tells that by itself.
ARRIVED_AT: Final = b"x-arrived-at"
RUN_EXCHANGE: Final = b"amq.stream.run"
# Of basic.deliver, from the exchange on: exchange, no routing key, frame end.
RUN_SUFFIX: Final = bytes([len(RUN_EXCHANGE)]) + RUN_EXCHANGE + b"\x00\xce"
RUN_HEAD_SIZE: Final[i64] = 14
VERSION: Final[i64] = 1
_NO_PROPERTIES: Final = b"\0\0"


class StreamRun:
    """Whole records of one file, and perhaps the beginning of one more."""

    def __init__(self, data: bytes, seed: i64, position: i64, count: i64) -> None:
        self.data = data
        self.seed: i64 = seed
        self.position: i64 = position
        # Messages in it.
        self.count: i64 = count


def write_run_head(out: BytesWriter, channel: i64, run: StreamRun) -> None:
    """Everything between basic.deliver and the records; behind them comes the frame end."""
    size: i64 = RUN_HEAD_SIZE + len(run.data)
    begin_header(out, channel, size, len(_NO_PROPERTIES))
    out.write(_NO_PROPERTIES)
    out.append(FRAME_END)
    begin_frame(out, FRAME_BODY, channel, size)
    write_u16(out, VERSION)
    write_u32(out, run.seed)
    write_i64_be(out, run.position)


def check_version(data: bytes, at: i64) -> None:
    version = i64(read_i16_be(data, at))
    if version != VERSION:
        raise FrameError(f"the broker sent messages in version {version}, and this is version {VERSION}")


def seed_of(data: bytes, at: i64) -> i64:
    return i64(read_i32_be(data, at + 2)) & 0xFFFFFFFF


def position_of(data: bytes, at: i64) -> i64:
    return read_i64_be(data, at + 6)
