"""Health checks, metrics, rates and the page."""

from __future__ import annotations

from pika.adapters.blocking_connection import BlockingChannel
from prometheus_client.parser import text_string_to_metric_families

from tests.management.asking import Asking
from warren import Broker
from warren.management.rates import FORGET_MS, INTERVAL_MS, Rates


def test_an_alarm_is_a_failed_check(broker: Broker, api: Asking) -> None:
    assert (api.get("/api/health/checks/alarms").status, api.get("/api/health/checks/alarms").json) == (
        200,
        {"status": "ok"},
    )
    broker.call(lambda node: node.set_alarm("disk", True))
    try:
        answer = api.get("/api/health/checks/alarms")
        assert (answer.status, answer.json["status"]) == (503, "failed")
        assert answer.json["alarms"][0]["resource"] == "disk"
        assert api.get("/api/nodes").json[0]["disk_free_alarm"] is True
    finally:
        broker.call(lambda node: node.set_alarm("disk", False))


def test_listeners_can_be_checked(broker: Broker, api: Asking) -> None:
    assert api.get(f"/api/health/checks/port-listener/{broker.port}").status == 200
    answer = api.get("/api/health/checks/port-listener/1")
    assert (answer.status, answer.json["missing"]) == (503, 1)
    assert api.get("/api/health/checks/port-listener/x").status == 400
    assert api.get("/api/health/checks/protocol-listener/amqp").status == 200
    assert api.get("/api/health/checks/protocol-listener/mqtt").status == 503
    assert api.get("/api/aliveness-test/%2F").json == {"status": "ok"}


def test_the_node_is_checked_by_the_name_that_overview_gives(api: Asking) -> None:
    name = api.get("/api/overview").json["contexts"][0]["node"]
    for path in ("/api/healthchecks/node", f"/api/healthchecks/node/{name}"):
        assert api.get(path).json == {"status": "ok"}
    assert api.get("/api/healthchecks/node/nobody@nowhere").status == 404


def test_metrics_have_the_names_of_rabbitmq(broker: Broker, channel: BlockingChannel) -> None:
    channel.queue_declare("measured")
    channel.basic_publish("", "measured", b"12345")
    answer = Asking(broker, None).get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain")
    samples = {
        (sample.name, sample.labels.get("queue_type")): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert samples[("rabbitmq_queue_messages_ready", None)] == 1
    assert samples[("rabbitmq_queue_messages_ready_bytes", None)] == 5
    assert samples[("rabbitmq_connections", None)] == 1
    assert samples[("rabbitmq_queue_messages_published_total", None)] == 1
    assert samples[("rabbitmq_alarms_memory_used_watermark", None)] == 0
    assert samples[("rabbitmq_global_messages_acknowledged_total", "rabbit_classic_queue")] == 0


def test_metrics_name_no_queue(broker: Broker, channel: BlockingChannel) -> None:
    channel.queue_declare("secret-name")
    assert "secret-name" not in Asking(broker, None).get("/metrics").text


def test_the_page_says_what_this_is(broker: Broker) -> None:
    answer = Asking(broker, None).get("/")
    assert answer.status == 200
    assert "Warren" in answer.text
    assert answer.headers["content-type"].startswith("text/html")


def test_a_rate_is_taken_over_some_seconds() -> None:
    rates = Rates()
    assert rates.rates(("k",), {"n": 100}, 0)["n"] == 0.0
    assert rates.rates(("k",), {"n": 150}, 1_000)["n"] == 50.0
    assert rates.rates(("k",), {"n": 200}, INTERVAL_MS)["n"] == 20.0
    # From here the sample of INTERVAL_MS is the older one.
    assert rates.rates(("k",), {"n": 200}, 2 * INTERVAL_MS)["n"] == 0.0


def test_rates_of_what_is_gone_are_forgotten() -> None:
    rates = Rates()
    rates.rates(("gone",), {"n": 1}, 0)
    for _ in range(1_000):
        rates.rates(("here",), {"n": 1}, FORGET_MS + 1)
    assert list(rates._samples) == [("here", "n")]
