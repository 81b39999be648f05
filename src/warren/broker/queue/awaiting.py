"""Something that waits for the store to reach a position: nothing is promised, or given up, before it is durable."""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Awaiting:
    def __init__(self, position: i64) -> None:
        self.position: i64 = position

    def reached(self) -> None:
        raise NotImplementedError
