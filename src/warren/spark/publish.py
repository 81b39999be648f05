"""Publishes in bulk and waits for the broker's word on every message: confirmed, refused or returned."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from warren.amqp.methods import BasicNack, BasicReturn, ConfirmSelect, ConfirmSelectOk
from warren.client.connection import Client, ConnectionLost
from warren.client.duplex import Duplex
from warren.client.session import Received, refusal
from warren.errors import WarrenError

# Handed to the kernel at a time.
SEND_BYTES: Final = 1 << 17

# Method and content (header and body frames) of what nobody took.
Returned = Callable[[BasicReturn, bytes], None]


class Unconfirmed:
    """Which numbers the broker has not answered yet. It may answer out of order."""

    def __init__(self) -> None:
        self.published = 0
        self._low = 0
        self._early: set[int] = set()

    @property
    def outstanding(self) -> int:
        return self.published - self._low - len(self._early)

    def answer(self, tag: int, multiple: bool) -> None:
        if multiple:
            if tag > self._low:
                self._early = {early for early in self._early if early > tag}
                self._low = tag
        elif tag > self._low:
            self._early.add(tag)
        while self._low + 1 in self._early:
            self._low += 1
            self._early.remove(self._low)


class ConfirmedPublisher:
    def __init__(self, client: Client, max_in_flight: int, on_return: Returned) -> None:
        client.call(ConfirmSelect(), ConfirmSelectOk)
        self.confirms = Unconfirmed()
        self._client = client
        self._duplex = Duplex(client)
        self._max_in_flight = max_in_flight
        self._on_return = on_return
        self._frames: list[bytes] = []
        self._size = 0
        self._unsent = 0

    @property
    def most_at_once(self) -> int:
        """How many messages `publish` may be given: others are on the way while these are made."""
        return max(1, self._max_in_flight // 2)

    def publish(self, frames: bytes, messages: int = 1) -> None:
        """All frames of so many messages. Waits while too many are unanswered."""
        if self.confirms.outstanding + self._unsent + messages > self._max_in_flight:
            self._send()
            # Half, so that the next ones go out in bulk again.
            self._await(min(self._max_in_flight // 2, self._max_in_flight - messages))
        self._frames.append(frames)
        self._size += len(frames)
        self._unsent += messages
        if self._size >= SEND_BYTES:
            self._send()

    def finish(self) -> None:
        """Returns when the broker has confirmed everything."""
        self._send()
        self._await(0)
        self._duplex.restore()

    def _send(self) -> None:
        frames, self._frames, self._size = self._frames, [], 0
        self.confirms.published += self._unsent
        self._unsent = 0
        self._duplex.write(b"".join(frames))
        self._take_answers()

    def _await(self, most: int) -> None:
        """Until no more than so many are unanswered."""
        silent_since = time.monotonic()
        while self.confirms.outstanding > most:
            if self._duplex.read(1.0):
                silent_since = time.monotonic()
                self._take_answers()
            elif time.monotonic() - silent_since > self._client.timeout:
                raise ConnectionLost(
                    f"the broker at {self._client.target.place} has not confirmed "
                    f"{self.confirms.outstanding} messages for {self._client.timeout:g} s"
                )

    def _take_answers(self) -> None:
        while (received := self._client.session.take_confirms(self.confirms.answer)) is not None:
            self._take_other(received)

    def _take_other(self, received: Received) -> None:
        method = received.method
        if isinstance(method, BasicNack):
            raise WarrenError("the broker refused a message (basic.nack): a queue is full or has failed")
        if not isinstance(method, BasicReturn):
            raise refusal(method)
        self._on_return(method, received.content)
