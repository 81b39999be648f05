"""Answers of any size, made a piece at a time and sent as they are made: nobody waits for a list of 50,000 queues, and
memory holds a few KB of it. See decision 0024.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from starlette.responses import Response, StreamingResponse

from warren.broker.node import Node
from warren.broker.queue.errands import Budget, Errand

# What a request does between two waits for its turn, in the units of errands.py: a few of them share a turn.
SLICE: Final = 1500
# An answer up to this size is sent whole, with its length.
WHOLE_BYTES: Final = 65536
# What is written at once of a longer one.
PIECE_BYTES: Final = 16384
# Of bodies that are copied, decoded or encoded, for a unit.
BYTES_PER_UNIT: Final = 500
_JSON: Final = "application/json"


class NextTurn(Errand):
    """A request that waits in line with all other work of more than one turn."""

    def __init__(self) -> None:
        super().__init__()
        self.come = asyncio.Event()

    def step(self, budget: Budget) -> bool:
        budget.spend(SLICE)
        self.come.set()
        return True


class Pace:
    """Counts what a request costs, and lets it wait when that was enough for a turn."""

    def __init__(self, node: Node, resumed: Callable[[], None]) -> None:
        self._node = node
        self._resumed = resumed
        self._left = SLICE

    async def spend(self, units: int) -> None:
        self._left -= units
        if self._left <= 0:
            await self.next_turn()

    async def next_turn(self) -> None:
        turn = NextTurn()
        self._node.errands.add(turn)
        await turn.come.wait()
        self._left = SLICE
        self._resumed()


def encode(value: Any) -> bytes:
    """As JSON, in as few bytes as possible."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def encoding_units(data: bytes) -> int:
    """About what it cost to make this piece, with the value that was made for it."""
    return 30 + len(data) // 12


async def respond(pieces: AsyncIterator[bytes], media_type: str = _JSON) -> Response:
    """Whatever is to be refused is refused before the first piece."""
    begun: list[bytes] = []
    size = 0
    async for piece in pieces:
        begun.append(piece)
        size += len(piece)
        if size > WHOLE_BYTES:
            return StreamingResponse(_rest(begun, pieces), media_type=media_type)
    return Response(b"".join(begun), media_type=media_type)


async def _rest(begun: list[bytes], pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    size = 0
    async for piece in pieces:
        begun.append(piece)
        size += len(piece)
        if size > PIECE_BYTES:
            yield b"".join(begun)
            begun, size = [], 0
    yield b"".join(begun)
