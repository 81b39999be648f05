"""Workloads of messages: all from throughput to dead letters are one run with different settings."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from warren.amqp import methods
from warren.client.connection import Client
from warren.perf.consumer import consume, reject
from warren.perf.measure import Figures, Measured, Watch, measure
from warren.perf.plan import REJECT, Plan
from warren.perf.publisher import publish
from warren.perf.workers import Job, Workers


@contextlib.contextmanager
def topology(plan: Plan) -> Iterator[Client]:
    """The exchange, queues and bindings of a plan, which are gone after the block, and a connection to ask with."""
    with Client(plan.target) as client:
        try:
            _declare(client, plan)
            yield client
        except BaseException:
            # The connection may be what failed, or be closed for the failure: clean up by another.
            with contextlib.suppress(Exception), Client(plan.target) as other:
                _delete(other, plan)
            raise
        _delete(client, plan)


def _declare(client: Client, plan: Plan) -> None:
    for number in range(plan.queues):
        declare = methods.QueueDeclare(queue=plan.queue(number), durable=plan.is_durable, arguments=plan.arguments())
        client.call(declare, methods.QueueDeclareOk)
    if plan.death:
        client.call(methods.QueueDeclare(queue=plan.grave, durable=plan.persistent), methods.QueueDeclareOk)
    if plan.exchange:
        exchange = methods.ExchangeDeclare(exchange=plan.exchange, type=plan.exchange_type, durable=plan.persistent)
        client.call(exchange, methods.ExchangeDeclareOk)
    for queue, key in plan.patterns():
        client.call(methods.QueueBind(queue=queue, exchange=plan.exchange, routing_key=key), methods.QueueBindOk)


def _delete(client: Client, plan: Plan) -> None:
    for number in range(plan.queues):
        client.call(methods.QueueDelete(queue=plan.queue(number)), methods.QueueDeleteOk)
    if plan.death:
        client.call(methods.QueueDelete(queue=plan.grave), methods.QueueDeleteOk)
    if plan.exchange:
        client.call(methods.ExchangeDelete(exchange=plan.exchange), methods.ExchangeDeleteOk)


def run(plan: Plan, pids: Sequence[int], watch: Watch) -> Figures:
    with topology(plan):
        return figures_of(run_workers(plan, pids, watch), plan)


def run_workers(plan: Plan, pids: Sequence[int], watch: Watch) -> Measured:
    jobs: list[Job] = [publish] if plan.publishers else []
    if plan.consumers:
        # First: where nothing limits publishers, they should not have a head start.
        jobs.insert(0, consume)
    if plan.death == REJECT:
        jobs.insert(0, reject)
    with Workers(plan, jobs) as workers:
        return measure(workers, plan, pids, watch)


def figures_of(run: Measured, plan: Plan) -> Figures:
    """`rate` is of what the workload is about: deliveries if there are consumers, else confirms, else publishes."""
    kind = "consumed" if plan.consumers else "confirmed" if plan.window else "published"
    figures = {"rate": run.rate(kind), "seconds": run.seconds}
    if plan.publishers:
        figures |= {"published_rate": run.rate("published"), "published": run.published}
    if plan.window:
        figures |= {"confirmed_rate": run.rate("confirmed"), "confirmed": run.confirmed}
    if plan.consumers:
        figures |= {"consumed_rate": run.rate("consumed"), "consumed": run.consumed}
    return figures | run.times.figures() | run.cost(run.count(kind))
