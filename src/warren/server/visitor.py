"""A socket that was accepted, as the gate counts it."""

from __future__ import annotations

import _socket
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warren.server.turn.gate import Gate

# Family, type and protocol of a socket. Asked of the socket they are enumerations, made anew each time.
Kind = tuple[int, int, int]


class Visitor(socket.socket):
    """Its descriptor is given back by `close`, or by `detach` where uvloop has it."""

    # One for each connection there is: no dictionary.
    __slots__ = ("address", "came_at", "gate", "number", "port")

    # The loop asks for them three times, and enumerations they need not be.
    family = _socket.socket.family  # type: ignore[assignment]
    type = _socket.socket.type  # type: ignore[assignment]

    def __init__(self, gate: Gate, like: Kind, number: int, address: str, port: int, came_at: float) -> None:
        super().__init__(*like, fileno=number)
        self.gate: Gate | None = gate
        self.address = address
        self.port = port
        self.came_at = came_at
        # Its descriptor, also when it has none any more.
        self.number = number

    def close(self) -> None:
        super().close()
        self._leave()

    def detach(self) -> int:
        number = super().detach()
        self._leave()
        return number

    def _leave(self) -> None:
        gate, self.gate = self.gate, None
        if gate is not None:
            gate.left(self)
