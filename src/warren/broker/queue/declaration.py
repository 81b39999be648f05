"""A queue as it is asked for: all that is known of one before it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.amqp.fields import Table

if TYPE_CHECKING:
    from warren.broker.queue.outlet import Outlet


class Declaration:
    def __init__(
        self,
        name: str,
        type_: str,
        durable: bool,
        auto_delete: bool,
        arguments: Table,
        owner: Outlet | None = None,
        incarnation: str = "",
    ) -> None:
        self.name = name
        self.type = type_
        self.durable = durable
        self.auto_delete = auto_delete
        self.arguments = arguments
        # The connection that declared it exclusive.
        self.owner = owner
        # Tells a queue from one of the same name that was deleted before it.
        self.incarnation = incarnation
