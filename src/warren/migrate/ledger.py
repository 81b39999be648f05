"""Warren's side of a migration: messages go in by transactions, and with them a note of how far their queue has come.

The note of a queue is the one message of a ledger queue of its own. Being written by the same transaction as the batch,
it says what is in Warren, whatever becomes of the process that moves.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Final

from warren.amqp import methods
from warren.amqp.constants import STREAM_OFFSET
from warren.amqp.fields import Field
from warren.amqp.frames import content_frames
from warren.amqp.properties import Properties, encode_properties
from warren.client.address import BrokerAddress
from warren.client.session import CHANNEL, frame_of, refusal
from warren.errors import PreconditionFailed, WarrenError
from warren.migrate.source import locked, take

PREFIX: Final = "warren.migrate."
_PROPERTIES: Final = encode_properties(Properties(content_type="application/json", delivery_mode=2))


@dataclass(frozen=True)
class Standing:
    """How far a queue has come."""

    # Messages moved; those that were in the source's queue at first, and in Warren's: of a stream its next offset.
    moved: int = 0
    counted: int = 0
    before: int = 0
    # Digests of the batch that is in Warren and perhaps not acknowledged yet, and how many were behind it.
    batch: list[str] = field(default_factory=list)
    behind: int = 0
    # Of a stream: what to read next from the source.
    offset: int = 0


class Ledger:
    """A connection to Warren that moves messages into it."""

    def __init__(self, address: BrokerAddress) -> None:
        self._address = address
        self._open()

    def _open(self) -> None:
        self._client = locked(self._address, "another migration into this broker is running")
        self._is_transacting = False

    @property
    def frame_max(self) -> int:
        return self._client.frame_max

    def count(self, queue: str) -> methods.QueueDeclareOk:
        return self._client.call(methods.QueueDeclare(queue=queue, passive=True), methods.QueueDeclareOk)

    def next_offset(self, stream: str) -> int:
        """What the next message of a stream of Warren gets."""
        found = take(self._client, stream, 1, {STREAM_OFFSET: Field("S", "last")})
        return found[-1].offset + 1 if found else 0

    def read(self, queue: str) -> Standing | None:
        """What was noted last; None when nothing was. Only before the first commit."""
        name = name_of(queue)
        only_one = {"x-max-length": Field("I", 1)}
        self._client.call(methods.QueueDeclare(queue=name, durable=True, arguments=only_one), methods.QueueDeclareOk)
        self._client.send([frame_of(methods.BasicGet(queue=name))])
        received = self._client.next()
        method = received.method
        if not isinstance(method, methods.BasicGetOk):
            return None
        self._client.send([frame_of(methods.BasicReject(delivery_tag=method.delivery_tag, requeue=True))])
        return Standing(**json.loads(received.body))

    def commit(self, queue: str, messages: list[bytes], standing: Standing) -> None:
        """Returns when all of it is on disk. After NotTaken the standing may be there nevertheless."""
        if not self._is_transacting:
            self._client.call(methods.TxSelect(), methods.TxSelectOk)
            self._is_transacting = True
        note = content_frames(CHANNEL, _PROPERTIES, json.dumps(asdict(standing)).encode(), self.frame_max)
        publish = frame_of(methods.BasicPublish(routing_key=name_of(queue), mandatory=True))
        self._client.send([*messages, publish, note, frame_of(methods.TxCommit())])
        returned = 0
        while isinstance((method := self._client.next().method), methods.BasicReturn):
            returned += 1
        if isinstance(method, methods.ChannelClose) and method.reply_code == PreconditionFailed.code:
            self._client.abandon()
            self._open()
            raise NotTaken(f"queue '{queue}' of Warren refused messages: {method.reply_text}")
        if not isinstance(method, methods.TxCommitOk):
            raise refusal(method)
        if returned:
            raise NotTaken(f"queue '{queue}' is not there any more")

    def forget(self, queue: str) -> None:
        self._client.call(methods.QueueDelete(queue=name_of(queue)), methods.QueueDeleteOk)

    def leave(self) -> None:
        self._client.leave()


class NotTaken(WarrenError):
    """A queue did not take the messages of a batch that was committed."""


def name_of(queue: str) -> str:
    """A digest, because the name of a queue may be as long as names can be."""
    return PREFIX + blake2b(queue.encode(), digest_size=12).hexdigest()
