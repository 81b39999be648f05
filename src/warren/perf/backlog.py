"""Fill a queue, look at what its messages weigh in the broker's memory, and drain it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from warren.amqp.methods import QueueDeclare, QueueDeclareOk
from warren.client.connection import Client
from warren.errors import WarrenError
from warren.perf.measure import STALLED, Figures, Watch
from warren.perf.plan import Plan
from warren.perf.processes import cpu_seconds, resident_bytes
from warren.perf.traffic import run_workers, topology

# Garbage of the publishing itself should be gone before the memory is looked at.
SETTLE: Final = 1.0


def run(plan: Plan, pids: Sequence[int], watch: Watch) -> Figures:
    with topology(plan) as client:
        memory_before = resident_bytes(pids)
        filling = run_workers(replace(plan, consumers=0), pids, lambda share, count: watch(share / 2, count))
        _wait_until_filled(client, plan)
        # Sent is not received: the clock stops when the broker says that it has all.
        fill_seconds = time.monotonic() - filling.first.at
        fill_cpu = cpu_seconds(pids) - filling.first.broker_cpu
        time.sleep(SETTLE if pids else 0.0)
        memory_after = resident_bytes(pids)
        draining = run_workers(replace(plan, publishers=0), pids, lambda share, count: watch(0.5 + share / 2, count))
    figures = {
        "fill_rate": plan.messages / fill_seconds,
        "drain_rate": draining.rate("consumed"),
        "published": filling.published,
        "consumed": draining.consumed,
    }
    if pids:
        figures["rss_per_message"] = (memory_after - memory_before) / plan.messages
        figures["fill_cpu_us"] = fill_cpu * 1e6 / plan.messages
    return figures | {f"drain_{name}": value for name, value in draining.cost(plan.messages).items()}


def _wait_until_filled(client: Client, plan: Plan) -> None:
    deadline = time.monotonic() + STALLED
    while (found := _count(client, plan)) < plan.messages:
        if time.monotonic() > deadline:
            raise WarrenError(f"the broker is stuck: {found} of {plan.messages} messages are in the queue")
        time.sleep(0.005)


def _count(client: Client, plan: Plan) -> int:
    asked = (QueueDeclare(queue=plan.queue(number), passive=True) for number in range(plan.queues))
    return sum(client.call(question, QueueDeclareOk).message_count for question in asked)
