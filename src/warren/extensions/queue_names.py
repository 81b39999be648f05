"""An interceptor that refuses queues whose names follow no convention.

In warren.toml: interceptors = ["warren.extensions.queue_names:QueueNames"]
For another convention, subclass it, set `pattern`, and name the subclass.
"""

from __future__ import annotations

from typing import ClassVar

from warren.amqp.methods import Method, QueueDeclare
from warren.broker.rules.pattern import Pattern
from warren.errors import PreconditionFailed
from warren.extend import Channel, Interceptor


class QueueNames(Interceptor):
    """Lets through what the pattern matches, what the broker shall name itself, and mere questions (passive)."""

    # Words of small letters and digits, joined by dots, dashes or underscores.
    pattern: ClassVar[str] = "^[a-z0-9]+([._-][a-z0-9]+)*$"

    def __init__(self) -> None:
        super().__init__()
        self._pattern = Pattern(self.pattern)

    def applies_to(self) -> list[str]:
        return ["queue.declare"]

    def intercept(self, channel: Channel, method: Method) -> Method:
        assert isinstance(method, QueueDeclare)
        is_new_name = method.queue != "" and not method.passive
        if is_new_name and not self._pattern.matches(method.queue):
            raise PreconditionFailed(f"queue name '{method.queue}' does not match '{self.pattern}'")
        return method
