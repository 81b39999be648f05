"""/metrics has RabbitMQ's names, types and labels, counts what happens, and its counters never fall."""

from __future__ import annotations

import json
import re
import socket
import time
import urllib.request
from pathlib import Path
from typing import Final

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from prometheus_client.parser import text_string_to_metric_families

from tests.management.asking import Asking
from tests.management.scene import Api, played
from tests.rabbitmq_node import MANAGEMENT, start_node
from warren import Broker

RECORDED: Final = Path(__file__).with_name("rabbitmq-3.10.8-metrics.json")
PATHS: Final = ("/metrics", "/metrics/per-object")
DETAILED: Final = "queue_coarse_metrics queue_metrics queue_consumer_count connection_coarse_metrics channel_metrics"
# Which of RabbitMQ's are not here, and why.
MISSING: Final = (
    (r"erlang_|process_start_time|telemetry_", "of the Erlang machine and of its client of Prometheus"),
    (r"rabbitmq_(detailed_)?(erlang|raft|schema_db|msg_store|io|queue_index)_", "inner workings of RabbitMQ's stores"),
    (r"reductions|process_memory_bytes", "of Erlang's processes"),
    (r"queue_disk_(reads|writes)", "the log is written in batches"),
    (r"(ram|paged_out|persistent)_bytes|messages_persistent|head_message_timestamp", "not measured per queue"),
    (r"uncommitted", "not kept per channel"),
    (r"auth_attempts_detailed", "only where RabbitMQ is told to track sources"),
    (r"dead_lettered_confirmed", "of at-least-once dead-lettering between queues on several nodes"),
)  # fmt: skip


# Labels that differ, by the metric and RabbitMQ's label, and why.
OTHER_LABELS: Final = (
    (r"build_info", "versions of the Erlang side there, of Warren here"),
    (r"identity_info here .*rabbitmq_endpoint", "as from RabbitMQ 4 on, whose dashboards ask for it"),
    (r"connection_\w+ here connection there channel", "there `channel` is the connection's process"),
    (r"here (queue,vhost|channel) there channel,", "there by pairs of channel and queue, here by one of them"),
    (r"queue_messages_published_total", "there by channel, exchange and queue, here by queue"),
)  # fmt: skip


def labels_in(text: str) -> dict[str, list[str]]:
    """The names of each metric's labels."""
    found: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^([a-z_0-9]+)(?:\{(.*)\})? \S+$", text, re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return {name: sorted(labels) for name, labels in found.items()}


def types_in(text: str) -> dict[str, str]:
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))


def main() -> None:
    """`python -m tests.management.test_metrics`: record what the installed RabbitMQ has."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = f"collect_statistics_interval = 500\nprometheus.tcp.ip = 127.0.0.1\nprometheus.tcp.port = {port}\n"
    with start_node((MANAGEMENT, "rabbitmq_prometheus"), config) as node:
        api = Api(node.http_port)
        node.await_startup(api.is_up)
        with played(api, node.amqp_port):
            time.sleep(2)
            found = {}
            for path in (*PATHS, detailed_path()):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
                    text = answer.read().decode()
                found[path] = {"types": types_in(text), "labels": labels_in(text)}
    RECORDED.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")


def detailed_path() -> str:
    return "/metrics/detailed?" + "&".join(f"family={each}" for each in DETAILED.split())


@pytest.mark.parametrize("path", [*PATHS, detailed_path()])
def test_every_metric_of_rabbitmq_is_there_or_there_is_a_reason(broker: Broker, api: Asking, path: str) -> None:
    theirs = json.loads(RECORDED.read_text())[path]["types"]
    with played(Api(int(broker.http_url.rpartition(":")[2])), broker.port):
        ours = types_in(api.get(path).text)
        if path == "/metrics/per-object":
            # RabbitMQ repeats there what it knows of the node as a whole.
            ours |= types_in(api.get("/metrics").text)
    missing = {name for name in theirs if name not in ours and not any(re.search(each, name) for each, _ in MISSING)}
    assert missing == set()
    # Alarms and versions are gauges here, where RabbitMQ gives them no type.
    shared = {name for name in set(ours) & set(theirs) if theirs[name] != "untyped"}
    assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}


@pytest.mark.parametrize("path", [*PATHS, detailed_path()])
def test_metrics_have_rabbitmq_s_labels_or_there_is_a_reason(broker: Broker, api: Asking, path: str) -> None:
    theirs: dict[str, list[str]] = json.loads(RECORDED.read_text())[path]["labels"]
    with played(Api(int(broker.http_url.rpartition(":")[2])), broker.port):
        ours = labels_in(api.get(path).text)
    shared = [name for name in sorted(ours.keys() & theirs.keys()) if ours[name] != theirs[name]]
    odd = [f"{name} here {','.join(ours[name])} there {','.join(theirs[name])}" for name in shared]
    assert [line for line in odd if not any(re.search(each, line) for each, _ in OTHER_LABELS)] == []


def value_of(api: Asking, name: str, **labels: str) -> float:
    path = "/metrics/per-object" if labels and "protocol" not in labels and "queue_type" not in labels else "/metrics"
    for family in text_string_to_metric_families(api.get(path).text):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return sample.value
    raise AssertionError(f"no {name} {labels}")


def test_a_stream_counts_as_the_api_shows_it(api: Asking, channel: BlockingChannel) -> None:
    channel.queue_declare("held", durable=True, arguments={"x-queue-type": "stream"})
    for _ in range(5):
        channel.basic_publish("", "held", b"four")
    channel.basic_qos(prefetch_count=9)
    next(channel.consume("held", arguments={"x-stream-offset": "first"}))
    shown = api.get("/api/queues/%2F/held").json
    assert (shown["messages"], shown["messages_unacknowledged"], shown["consumer_capacity"]) == (5, 5, 1.0)
    for name, value in (("messages", 5), ("messages_unacked", 5), ("consumer_capacity", 1)):
        assert value_of(api, f"rabbitmq_queue_{name}", queue="held") == value
    channel.cancel()


def test_what_happens_is_counted(api: Asking, channel: BlockingChannel) -> None:
    before = value_of(api, "rabbitmq_global_messages_received_total", protocol="amqp091")
    channel.queue_declare("counted")
    for _ in range(3):
        channel.basic_publish("", "counted", b"12345")
    channel.basic_get("counted", auto_ack=True)
    assert value_of(api, "rabbitmq_global_messages_received_total", protocol="amqp091") == before + 3
    assert value_of(api, "rabbitmq_queue_messages_ready", queue="counted") == 2
    assert value_of(api, "rabbitmq_queue_messages_ready_bytes", queue="counted") == 10


def test_counters_do_not_fall_when_a_queue_goes(api: Asking, channel: BlockingChannel) -> None:
    labels = {"protocol": "amqp091", "queue_type": "rabbit_classic_queue"}
    name = "rabbitmq_global_messages_delivered_get_auto_ack_total"
    channel.queue_declare("passing")
    channel.basic_publish("", "passing", b"m")
    channel.basic_get("passing", auto_ack=True)
    before = value_of(api, name, **labels)
    channel.queue_delete("passing")
    assert value_of(api, name, **labels) == before > 0


def test_dead_letters_are_counted_by_reason(api: Asking, channel: BlockingChannel) -> None:
    name = "rabbitmq_global_messages_dead_lettered_maxlen_total"
    labels = {"queue_type": "rabbit_classic_queue", "dead_letter_strategy": "at_most_once"}
    before = value_of(api, name, **labels)
    channel.queue_declare("tiny", arguments={"x-max-length": 1, "x-dead-letter-exchange": "amq.fanout"})
    for _ in range(3):
        channel.basic_publish("", "tiny", b"m")
    assert value_of(api, name, **labels) == before + 2


def test_names_are_for_monitors_and_numbers_for_all(broker: Broker) -> None:
    nobody = Asking(broker, None)
    assert nobody.get("/metrics").status == 200
    assert nobody.get("/metrics/per-object").status == nobody.get("/metrics/detailed").status == 401


def test_detailed_shows_what_is_asked_for(broker: Broker, api: Asking, channel: BlockingChannel) -> None:
    broker.add_vhost("elsewhere")
    channel.queue_declare("detailed")
    assert "queue" not in api.get("/metrics/detailed").text
    found = api.get("/metrics/detailed?family=queue_coarse_metrics").text
    assert 'rabbitmq_detailed_queue_messages_ready{queue="detailed",vhost="/"} 0.0' in found
    assert "detailed_queue_consumers" not in found
    assert 'queue="detailed"' not in api.get("/metrics/detailed?family=queue_coarse_metrics&vhost=elsewhere").text
    assert api.get("/metrics/detailed?family=nonsense").status == 400


@pytest.mark.parametrize("alarm", ["memory", "disk", "fd"])
def test_alarms_are_seen_everywhere(broker: Broker, api: Asking, alarm: str) -> None:
    keys = {"memory": "mem_alarm", "disk": "disk_free_alarm", "fd": "fd_alarm"}
    names = {
        "memory": "rabbitmq_alarms_memory_used_watermark",
        "disk": "rabbitmq_alarms_free_disk_space_watermark",
        "fd": "rabbitmq_alarms_file_descriptor_limit",
    }
    for is_on in (True, False):
        broker.call(lambda node, is_on=is_on: node.set_alarm(alarm, is_on))  # type: ignore[misc]
        assert (alarm in api.get("/api/overview").json["alarms"]) == is_on
        assert api.get("/api/nodes").json[0][keys[alarm]] == is_on
        assert api.get("/api/health/checks/alarms").status == (503 if is_on else 200)
        assert value_of(api, names[alarm]) == int(is_on)


def test_publishers_are_told_and_consumers_go_on(broker: Broker, connection: pika.BlockingConnection) -> None:
    told: list[str] = []
    connection.add_on_connection_blocked_callback(lambda _, method: told.append(method.method.reason))
    channel = connection.channel()
    channel.queue_declare("blocked")
    channel.basic_publish("", "blocked", b"before")
    channel.queue_declare("blocked", passive=True)
    broker.call(lambda node: node.set_alarm("fd", True))
    channel.basic_publish("", "blocked", b"during")
    connection.process_data_events(0.2)
    assert told == ["low on file descriptors"]
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as consuming:
        assert consuming.channel().basic_get("blocked", auto_ack=True)[2] == b"before"
    broker.call(lambda node: node.set_alarm("fd", False))


if __name__ == "__main__":
    main()
