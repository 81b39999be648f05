"""How often messages came back to queues that ask for it: noted in the log when they do, for a limit must hold over a
restart. A segment's index repeats what its records say.

    note    lane(4) sequence(8) times(4)

Times only grow, so that of several notes the highest holds, whatever their order.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

NOTE_SIZE: Final[i64] = 16

# Of lanes by their number: how often which sequence came back.
Returned = dict[int, dict[int, int]]


def note(returned: Returned, lane: int, sequence: int, times: int) -> None:
    of_lane = returned.get(lane)
    if of_lane is None:
        of_lane = {}
        returned[lane] = of_lane
    of_lane[sequence] = max(times, of_lane.get(sequence, 0))


def note_payloads(returned: Returned, payloads: list[bytes]) -> None:
    """What records say, one after the other."""
    for payload in payloads:
        for at in range(0, len(payload), NOTE_SIZE):
            lane, times = int(read_i32_be(payload, at)), int(read_i32_be(payload, at + 12))
            note(returned, lane, int(read_i64_be(payload, at + 4)), times)


def encode_returned(returned: Returned) -> bytes:
    out = BytesWriter()
    for lane, notes in returned.items():
        for sequence, times in notes.items():
            write_i32_be(out, i32(lane))
            write_i64_be(out, i64(sequence))
            write_i32_be(out, i32(times))
    return out.getvalue()


def read_returned(payload: bytes) -> Returned:
    returned: Returned = {}
    note_payloads(returned, [payload])
    return returned
