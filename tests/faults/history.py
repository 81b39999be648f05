"""What clients did and saw, in one order: the evidence that checker.py judges.

An attempt is noted before its bytes leave, an answer when it has come, so the list's order is a legal order of events
for the broker. A message is known by its id, from which its body can be made again.
"""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final

_BLOCK: Final = random.Random(0).randbytes(2 * 1024 * 1024)
LARGE: Final = 1024 * 1024


def body_for(identity: str, largest: int = LARGE) -> bytes:
    """Always the same for the same id: nothing up to 64 KB, mostly small, and one in fifty of `largest`."""
    digest = blake2b(identity.encode(), digest_size=16).digest()
    pick, offset = digest[0], int.from_bytes(digest[1:4], "big") % (len(_BLOCK) - LARGE)
    if pick < 5:
        size = largest
    elif pick < 15:
        size = 0
    else:
        # Every power of two up to 64 KB is as likely as any other.
        size = int.from_bytes(digest[4:8], "big") % (1 << digest[8] % 17)
    return _BLOCK[offset : offset + min(size, largest)]


@dataclass(slots=True)
class Op:
    """One line of the history. Fields that a kind has no use for stay empty."""

    kind: str
    channel: str = ""
    queue: str = ""
    identity: str = ""
    # Publisher's or delivery's number on the channel; for fences, how many settlements it covers.
    tag: int = 0
    multiple: bool = False
    redelivered: bool = False
    # Publish: the queues it must reach. Deliver: whether the body was the one of this id.
    queues: tuple[str, ...] = ()
    intact: bool = True


_PLAIN: Final = asdict(Op(""))


@dataclass
class History:
    seed: int = 0
    ops: list[Op] = field(default_factory=list)

    # One method per kind. Appending to a list is atomic, so all clients write here from their own threads.

    def publish(self, channel: str, tag: int, identity: str, queues: tuple[str, ...]) -> None:
        self.ops.append(Op("publish", channel, identity=identity, tag=tag, queues=queues))

    def confirm(self, channel: str, tag: int, multiple: bool) -> None:
        self.ops.append(Op("confirm", channel, tag=tag, multiple=multiple))

    def nack(self, channel: str, tag: int, multiple: bool) -> None:
        self.ops.append(Op("nack", channel, tag=tag, multiple=multiple))

    def returned(self, channel: str, identity: str) -> None:
        self.ops.append(Op("return", channel, identity=identity))

    def deliver(self, channel: str, queue: str, identity: str, redelivered: bool, intact: bool) -> None:
        self.ops.append(Op("deliver", channel, queue, identity, redelivered=redelivered, intact=intact))

    def settle(self, kind: str, channel: str, queue: str, identity: str) -> None:
        """`kind` is ack, reject or requeue."""
        self.ops.append(Op(kind, channel, queue, identity))

    def fence(self, channel: str, settled: int) -> None:
        """The broker answered something that was asked after the first `settled` settlements on the channel."""
        self.ops.append(Op("fence", channel, tag=settled))

    def empty(self, queue: str) -> None:
        """basic.get found nothing."""
        self.ops.append(Op("empty", queue=queue))

    def crash(self) -> None:
        self.ops.append(Op("crash"))

    def draining(self) -> None:
        """No more faults and no other clients from here on."""
        self.ops.append(Op("draining"))

    def definition(self, kind: str, queue: str) -> None:
        """`kind` is declare, declared, delete, deleted (asked for and answered), present or absent (looked up)."""
        self.ops.append(Op(kind, queue=queue))

    def save(self, path: Path) -> None:
        with path.open("w", encoding="utf-8") as file:
            file.write(json.dumps({"seed": self.seed}) + "\n")
            for op in self.ops:
                told = {key: value for key, value in asdict(op).items() if value != _PLAIN[key]}
                file.write(json.dumps(told) + "\n")
