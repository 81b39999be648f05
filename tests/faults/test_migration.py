"""`warren migrate` from a real RabbitMQ, killed at every point of a batch; `make faults` moves a million."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.serving import Serving
from tests.faults import migration, migration_driver
from tests.faults.migration import Scene
from tests.rabbitmq_node import RabbitNode, server_script
from warren.amqp.fields import table_of
from warren.amqp.methods import BasicConsume, BasicConsumeOk, QueueBind, QueueBindOk, QueueDeclare, QueueDeclareOk
from warren.client.address import parse_uri
from warren.client.api import Api
from warren.client.connection import Client
from warren.migrate.ledger import PREFIX

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(server_script() is None, reason="rabbitmq-server is not installed"),
    pytest.mark.timeout(300),
]
PATIENCE = 60
# More than as many batches as there are kills that leave one done.
EACH = 4100


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitNode]:
    with migration.start_rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as node:
        yield node


@pytest.fixture
def scene(rabbitmq: RabbitNode, tmp_path: Path) -> Iterator[Scene]:
    with Serving(tmp_path, "--data-dir", "data") as warren, contextlib.closing(Scene(rabbitmq, warren)) as scene:
        yield scene
    there = Api(scene.api)
    for queue in there.get("queues"):
        there.delete("queues", "/", queue["name"])


def finish(scene: Scene, *more: str) -> dict[str, object]:
    output, errors = (process := scene.migrate(*more)).communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    summary = json.loads(output)
    assert isinstance(summary, dict)
    return summary


def wait_for(scene: Scene, messages: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while migration.ready_in(scene) < messages:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_killed_at_every_point_of_a_batch_nothing_is_lost_and_nothing_is_there_twice(scene: Scene) -> None:
    migration.fill(scene.source, 2, EACH, EACH)
    # All alike, a classic queue, a quorum queue: whatever comes back looks a little different in each.
    for queue in ("alike", "queue-00", "queue-01"):
        for point in migration_driver.POINTS:
            process = scene.migrate_until(point, 1, "--queues", queue)
            process.communicate(timeout=PATIENCE)
            assert process.returncode == -signal.SIGKILL
    summary = finish(scene)
    assert (summary["moved"], summary["verified"]) == (3 * EACH, True)
    assert migration.complaints_about(scene.warren.amqp_url, 2, EACH, EACH) == []
    # Nothing of the migration stays behind.
    here = Api(scene.warren.http_url)
    assert [user["name"] for user in here.get("users")] == ["guest"]
    assert not [queue for queue in here.get("queues") if queue["name"].startswith(PREFIX)]


def test_a_stream_is_copied_once_however_often_the_command_is_killed(scene: Scene) -> None:
    with Client(parse_uri(scene.source)) as client:
        stream = table_of({"x-queue-type": "stream"})
        client.call(QueueDeclare(queue="log", durable=True, arguments=stream), QueueDeclareOk)
        client.call(QueueBind(queue="log", exchange="amq.topic", routing_key="log.#"), QueueBindOk)
    migration.fill_more(scene.source, "log", range(EACH))
    for point in ("taken", "committed", "acked", "committed"):
        process = scene.migrate_until(point, 2)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == -signal.SIGKILL
    summary = finish(scene)
    assert (summary["moved"], summary["verified"]) == (EACH, True)
    keys, bodies = migration.read(scene.warren.amqp_url, "log", EACH)
    assert keys == [f"log.{n}" for n in range(EACH)]
    assert bodies == [f"{n} in log".encode() * 4 for n in range(EACH)]
    # The source still has it all, and another run knows.
    assert finish(scene)["moved"] == 0


def test_without_a_ledger_the_same_kill_doubles_a_batch(scene: Scene) -> None:
    migration.fill(scene.source, 1, 1000)
    scene.migrate_until("committed", 1).communicate(timeout=PATIENCE)
    _, errors = scene.migrate_until("break-none", 1).communicate(timeout=PATIENCE)
    assert "the counts of 1 queues differ" in errors
    assert migration.complaints_about(scene.warren.amqp_url, 1, 1000, 0) == ["queue-00: 1000 too many"]


def test_live_goes_on_with_what_is_published_until_it_is_told_to_stop(scene: Scene) -> None:
    migration.fill(scene.source, 2, 10)
    process = scene.migrate("--live")
    wait_for(scene, 20)
    migration.fill_more(scene.source, "queue-01", range(10, 30))
    wait_for(scene, 40)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert json.loads(output)["moved"] == 40
    assert migration.drain(scene.warren.amqp_url, "queue-01", 30)[0] == [f"queue-01.{n}" for n in range(30)]


def test_a_queue_with_consumers_at_the_source_is_not_moved_behind_their_back(scene: Scene) -> None:
    migration.fill(scene.source, 1, 10)
    with Client(parse_uri(scene.source)) as client:
        client.call(BasicConsume(queue="alike"), BasicConsumeOk)
        process = scene.migrate()
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "queue 'alike' has 1 consumers at the source" in errors


def test_definitions_come_first_and_patterns_choose_whose_messages_follow(scene: Scene) -> None:
    there = Api(scene.api)
    there.put("vhosts", "shop", body={})
    there.put("users", "anna", body={"password": "tea", "tags": "monitoring"})
    there.put("permissions", "shop", "anna", body={"configure": "", "write": ".*", "read": ".*"})
    there.put("policies", "/", "limit", body={"pattern": "^queue", "definition": {"max-length": 1000}})
    migration.fill(scene.source, 2, 10)
    assert finish(scene, "--queues", "*-00")["moved"] == 10
    here = Api(scene.warren.http_url)
    assert here.get("users", "anna")["tags"] == ["monitoring"]
    assert here.get("permissions", "shop", "anna")["write"] == ".*"
    assert here.get("queues", "/", "queue-01")["policy"] == "limit"
    assert here.get("queues", "/", "queue-01")["type"] == "quorum"
    assert [here.get("queues", "/", name)["messages"] for name in ("queue-00", "queue-01")] == [10, 0]
    assert finish(scene, "--queues", "queue-0?")["moved"] == 10
