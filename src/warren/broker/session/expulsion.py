"""What an operator's change does to those who are connected: they are closed, or lose what they may not read any more.

In pieces, as all that is done to very many at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.broker.queue.errands import Budget
from warren.broker.vhost.sweeps import Sweep

if TYPE_CHECKING:
    from warren.broker.session.connection import Connection
    from warren.broker.vhost.realm import Realm

# What it costs to close a connection, and to look at a channel or a consumer of one.
_CONNECTION_UNITS: Final[i64] = 100
_CHANNEL_UNITS: Final[i64] = 20


class ConnectionSweep(Sweep):
    def __init__(self, realm: Realm, connections: list[Connection]) -> None:
        super().__init__(realm)
        self._left = connections
        self._left.reverse()

    def sweep(self, budget: Budget) -> bool:
        while self._left and budget.left > 0:
            connection = self._left.pop()
            units: i64 = _CONNECTION_UNITS
            for channel in connection.channels.values():
                units += _CHANNEL_UNITS * (1 + len(channel.consumers))
            self.visit(connection)
            budget.spend(units)
        return not self._left

    def visit(self, connection: Connection) -> None:
        raise NotImplementedError


class Expulsion(ConnectionSweep):
    """They are closed."""

    def __init__(self, realm: Realm, connections: list[Connection], reason: str) -> None:
        super().__init__(realm, connections)
        self._reason = reason

    def visit(self, connection: Connection) -> None:
        connection.close_by_admin(self._reason)


class Revocation(ConnectionSweep):
    """A consumer must not outlive the right to read."""

    def visit(self, connection: Connection) -> None:
        for channel in list(connection.channels.values()):
            channel.cancel_unreadable()
