"""Whether a cluster serves: asked all the time, by way of every node."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from itertools import pairwise
from typing import Final

from tests.faults.kill9_client import Client, Gone, publish_frames
from tests.replication.real_nodes import NodeProcess
from warren.amqp import methods

PROBE: Final = "probe"
# Seconds between two questions.
_PAUSE: Final = 0.05


class Watchman:
    """Publishes by way of every node, all the time, and waits for each confirm."""

    def __init__(self, nodes: list[NodeProcess]) -> None:
        self.answers: list[float] = [time.monotonic()]
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(node,)) for node in nodes]
        for thread in self._threads:
            thread.start()

    def _ask(self, node: NodeProcess) -> None:
        while not self._is_over.is_set():
            with suppress(Gone, AssertionError), Client(node.amqp_port, "", node.machine.host, 4.0) as client:
                client.declare(PROBE, {"x-max-length": 1})
                client.confirm_select()
                while not self._is_over.wait(_PAUSE):
                    client.send(publish_frames("", PROBE, "probe", b""))
                    client.wait_for(methods.BasicAck)
                    self.answers.append(time.monotonic())
            self._is_over.wait(_PAUSE)

    def is_served_after(self, moment: float) -> bool:
        return self.answers[-1] > moment

    def longest_gap(self, since: float = 0.0) -> float:
        """Without an answer, of those that began or ended after that moment."""
        times = sorted([*self.answers, time.monotonic()])
        return max(after - before for before, after in pairwise(times) if after > since)

    def end(self) -> float:
        """The longest time without an answer."""
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        return self.longest_gap()
