"""Celery: a worker in a thread takes tasks from the broker and answers through it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from celery import Celery, Task, chain, group
from celery.contrib.testing.worker import start_worker

from warren import Broker

PATIENCE = 30

pytestmark = pytest.mark.usefixtures("leaky")


def add(one: int, other: int) -> int:
    return one + other


def flaky(task: Task, succeed_at: int) -> int:
    if task.request.retries < succeed_at:
        raise task.retry(countdown=0)
    return int(task.request.retries)


@pytest.fixture
def app(warren_broker: Broker) -> Iterator[Celery]:
    app = Celery("tests", broker=warren_broker.url, backend="rpc://", set_as_current=False)
    app.conf.update(task_default_queue="tasks", broker_connection_retry_on_startup=False, result_expires=60)
    app.task(name="add")(add)
    app.task(name="flaky", bind=True, max_retries=3)(flaky)
    with start_worker(app, perform_ping_check=False, pool="solo"):
        yield app
        # An idle worker looks up only when something arrives.
        app.control.shutdown()
    app.close()


def test_a_worker_answers_retries_and_obeys(app: Celery) -> None:
    add = app.signature("add")
    assert add.clone((1, 2)).delay().get(timeout=PATIENCE) == 3
    assert group(add.clone((number, 1)) for number in range(20))().get(timeout=PATIENCE) == list(range(1, 21))
    assert chain(add.clone((1, 2)), add.clone((3,)))().get(timeout=PATIENCE) == 6
    assert app.send_task("flaky", (2,)).get(timeout=PATIENCE) == 2
    # Remote control goes through fanout and reply exchanges of its own.
    assert [list(answer.values()) for answer in app.control.ping(timeout=PATIENCE, limit=1)] == [[{"ok": "pong"}]]
    tasks = app.control.inspect(timeout=PATIENCE, limit=1).registered()
    assert tasks is not None
    assert {"add", "flaky"} <= set(next(iter(tasks.values())))
