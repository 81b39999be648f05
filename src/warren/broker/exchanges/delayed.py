"""x-delayed-message: an exchange of another type (x-delayed-type) that a message reaches `x-delay` milliseconds late.

What is to come waits in the exchange's schedule (queue/schedule.py), which looks like one more queue from here.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from warren.amqp.fields import Table
from warren.broker.exchanges.base import Binding, Destination, Envelope, Exchange

DELAYED: Final = "x-delayed-message"
DELAY_HEADER: Final = "x-delay"
# A hundred years, so that it can be added to any clock.
DELAY_MAX: Final[i64] = 3_155_760_000_000


def delay_of(headers: Table | None) -> i64:
    """In milliseconds; 0 when there is nothing to wait for, also once it has waited (then the header is negative)."""
    if headers is None:
        return 0
    field = headers.get(DELAY_HEADER)
    if field is None or isinstance(field.value, bool) or not isinstance(field.value, int):
        return 0
    return max(min(field.value, DELAY_MAX), 0)


class DelayedExchange(Exchange):
    def __init__(self, vhost: str, name: str, inner: Exchange) -> None:
        super().__init__(vhost, name, DELAYED)
        self.inner = inner
        self.looks_beyond_keys = True
        # Given by the vhost: what waits needs a place in the store.
        self.schedule: Destination | None = None

    def check_binding(self, binding: Binding) -> None:
        self.inner.check_binding(binding)

    def add(self, binding: Binding) -> None:
        self.inner.add(binding)

    def remove(self, binding: Binding) -> None:
        self.inner.remove(binding)

    def match(self, envelope: Envelope) -> list[Destination]:
        if self.schedule is not None and delay_of(envelope.headers) > 0:
            return [self.schedule]
        return self.inner.match(envelope)
