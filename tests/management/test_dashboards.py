"""RabbitMQ's own Grafana dashboards find what they ask for: RabbitMQ-Overview of 3.10, of 3.12 and of 4.x, and how
those of streams, quorum queues and the Erlang machine fare.

Every query of theirs multiplies a metric with rabbitmq_identity_info on (instance, job) and takes over its labels.
"""

from __future__ import annotations

import http.client
import socket
from typing import Final

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.management.asking import Asking
from tests.management.scene import Api, played
from warren import Broker

GLOBAL: Final = """
    messages_acknowledged_total messages_confirmed_total messages_delivered_consume_auto_ack_total
    messages_delivered_consume_manual_ack_total messages_delivered_get_auto_ack_total
    messages_delivered_get_manual_ack_total messages_get_empty_total messages_received_confirm_total
    messages_received_total messages_redelivered_total messages_routed_total messages_unroutable_dropped_total
    messages_unroutable_returned_total
"""
SHARED: Final = """
    channels channels_closed_total channels_opened_total connections connections_closed_total connections_opened_total
    disk_space_available_bytes process_max_fds process_open_fds process_resident_memory_bytes queue_messages_ready
    queue_messages_unacked queues queues_created_total queues_declared_total queues_deleted_total
    resident_memory_limit_bytes identity_info build_info
"""
OVERVIEW_3_10: Final = """
    channel_consumers channel_get_ack_total channel_get_empty_total channel_get_total channel_messages_acked_total
    channel_messages_confirmed_total channel_messages_delivered_ack_total channel_messages_delivered_total
    channel_messages_published_total channel_messages_redelivered_total channel_messages_unconfirmed
    channel_messages_unroutable_dropped_total channel_messages_unroutable_returned_total process_max_tcp_sockets
    process_open_tcp_sockets queue_messages_published_total
"""
OVERVIEW_3_12: Final = "channel_consumers consumers process_max_tcp_sockets process_open_tcp_sockets"
OVERVIEW_4: Final = """
    disk_space_available_limit_bytes erlang_uptime_seconds message_size_bytes_bucket message_size_bytes_count
    message_size_bytes_sum global_consumers global_publishers global_messages_delivered_total
"""
STREAM: Final = """
    global_consumers global_publishers global_messages_confirmed_total global_messages_delivered_total
    global_messages_received_total identity_info
"""
# What other dashboards show that cannot be here.
ABSENT: Final = {
    "rabbitmq_raft_": "RabbitMQ-Quorum-Queues-Raft: there is one node, and nothing is voted on",
    "erlang_vm_": "Erlang-BEAM, -Distribution, -Memory-Allocators: there is no Erlang machine",
    "rabbitmq_global_stream_error_": "RabbitMQ-Stream, its panel of errors: they are of the stream protocol",
}
BOUNDS: Final = ["100.0", "1000.0", "10000.0", "100000.0", "1e+06", "1e+07", "5e+07", "1e+08", "+Inf"]


def names_of(text: str, prefix: str = "rabbitmq_") -> set[str]:
    return {prefix + name for name in text.split()}


WANTED: Final = {
    "3.10": names_of(SHARED) | names_of(OVERVIEW_3_10),
    "3.12": names_of(SHARED) | names_of(OVERVIEW_3_12) | names_of(GLOBAL, "rabbitmq_global_"),
    "4": names_of(SHARED) | names_of(OVERVIEW_4) | names_of(GLOBAL, "rabbitmq_global_"),
    "stream": names_of(STREAM),
}


def families(text: str) -> list[Metric]:
    return list(text_string_to_metric_families(text))


@pytest.fixture
def scraped(broker: Broker, api: Asking) -> list[Metric]:
    """What Prometheus reads while clients are busy."""
    with played(Api(int(broker.http_url.rpartition(":")[2])), broker.port):
        return families(api.get("/metrics").text)


@pytest.mark.parametrize("version", WANTED)
def test_every_metric_of_the_dashboard_has_samples(scraped: list[Metric], version: str) -> None:
    assert WANTED[version] - {sample.name for family in scraped for sample in family.samples} == set()


def test_what_is_absent_is_absent(scraped: list[Metric]) -> None:
    found = {sample.name for family in scraped for sample in family.samples}
    assert not [name for name in found if name.startswith(tuple(ABSENT))]


@pytest.mark.parametrize(
    ("path", "endpoint"),
    [
        ("/metrics", "aggregated"),
        ("/metrics/per-object", "per-object"),
        ("/metrics/detailed?family=queue_coarse_metrics", "detailed"),
    ],
)
def test_everything_can_be_joined_to_the_node_and_its_versions(api: Asking, path: str, endpoint: str) -> None:
    """A join needs exactly one on the right, and a label that is empty is none."""
    found = {family.name: family.samples for family in families(api.get(path).text)}
    (identity,), (build,) = found["rabbitmq_identity_info"], found["rabbitmq_build_info"]
    assert (identity.value, build.value) == (1, 1)
    assert identity.labels["rabbitmq_endpoint"] == endpoint
    assert identity.labels.keys() >= {"rabbitmq_node", "rabbitmq_cluster", "rabbitmq_cluster_permanent_id"}
    assert build.labels.keys() >= {"rabbitmq_version", "erlang_version", "prometheus_plugin_version"}
    assert all([*identity.labels.values(), *build.labels.values()])
    # What is taken over must not be there already, or it is overwritten.
    taken = {"rabbitmq_cluster", "rabbitmq_node"}
    others = [each for name, samples in found.items() if name != "rabbitmq_identity_info" for each in samples]
    assert not [each for each in others if taken & each.labels.keys()]


def test_sizes_fall_into_the_classes_of_the_dashboard(broker: Broker, api: Asking) -> None:
    def count(bound: str) -> float:
        (family,) = [each for each in families(api.get("/metrics").text) if each.name == "rabbitmq_message_size_bytes"]
        buckets = {each.labels["le"]: each.value for each in family.samples if each.name.endswith("_bucket")}
        assert list(buckets) == BOUNDS
        return buckets[bound]

    before = [count(bound) for bound in BOUNDS]
    for size in (0, 100, 101, 20_000, 1_000_001):
        body = {"properties": {}, "routing_key": "nobody", "payload": "x" * size, "payload_encoding": "string"}
        assert api.post("/api/exchanges/%2F/amq.default/publish", body).status == 200
    grown = [count(bound) - old for bound, old in zip(BOUNDS, before, strict=True)]
    assert grown == [2, 3, 3, 4, 4, 5, 5, 5, 5]


def test_a_port_of_its_own_asks_for_no_login_and_has_nothing_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Broker(http=True, prometheus_port=port) as broker:
        statuses = {}
        for path in ("/metrics", "/metrics/per-object", "/metrics/detailed?family=queue_metrics", "/api/overview", "/"):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", path)
            statuses[path] = connection.getresponse().status
            connection.close()
        assert list(statuses.values()) == [200, 200, 200, 404, 404]
        listeners = Asking(broker).get("/api/overview").json["listeners"]
        assert [each["port"] for each in listeners if each["protocol"] == "http/prometheus"] == [port]
