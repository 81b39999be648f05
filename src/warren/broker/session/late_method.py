"""A method that has to wait for something: then it is done as if it came only now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.broker.queue.errands import Budget, Errand
from warren.errors import SoftError

if TYPE_CHECKING:
    from warren.broker.session.channel import Channel


class LateMethod(Errand):
    def __init__(self, channel: Channel, method_id: int) -> None:
        super().__init__()
        self.channel = channel
        self._method_id = method_id

    def step(self, budget: Budget) -> bool:
        if self.channel.is_closed:
            return True
        if self.must_wait():
            return False
        try:
            self.do()
        except SoftError as error:
            self.channel.fail(error, self._method_id)
        return True

    def must_wait(self) -> bool:
        raise NotImplementedError

    def do(self) -> None:
        raise NotImplementedError
