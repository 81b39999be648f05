"""Extension point: spans of what the broker does to a message, for a tracing system outside.

Named in the configuration as "package.module:Class" and made once per node. While there is one, publishes and
deliveries are watched.
"""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from warren.amqp.fields import Table


@mypyc_attr(allow_interpreted_subclasses=True)
class Tracer:
    """Calls for one publish come one after another, never mixed with those of another."""

    def publish_started(self, vhost: str, exchange: str, routing_key: str, headers: Table | None) -> Table | None:
        """The headers that the message goes on with, or None to leave it as it is."""
        return None

    def routed(self, queues: list[str]) -> None:
        """The exchanges have been asked."""

    def publish_ended(self, refusal: str) -> None:
        """It is in its queues, or it was refused for this reason."""

    def delivered(self, vhost: str, queue: str, headers: Table | None, redelivered: bool) -> None:
        """It goes to a consumer."""
