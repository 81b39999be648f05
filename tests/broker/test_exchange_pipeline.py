"""x-pipeline: publishers reach the input stream, results reach the bound queues, each once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
import pytest

from warren import Broker

START = {"x-stream-offset": "first"}
RESULT = {"x-pipeline-result": "scores"}


@contextmanager
def channel_of(broker: Broker) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel


def declare(channel: pika.adapters.blocking_connection.BlockingChannel) -> None:
    channel.exchange_declare("scoring", "x-pipeline", durable=True, arguments={"x-pipeline": "scores"})


def bodies(channel: pika.adapters.blocking_connection.BlockingChannel, queue: str) -> list[bytes]:
    found = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append(got[2])
    return found


def input_bodies(channel: pika.adapters.blocking_connection.BlockingChannel) -> list[bytes]:
    channel.basic_qos(prefetch_count=100)
    found = []
    for method, _, body in channel.consume("pipeline.scoring", arguments=START, inactivity_timeout=1):
        if method is None:
            break
        found.append(body)
    channel.cancel()
    return found


def test_what_clients_publish_goes_to_the_input_and_to_no_bound_queue() -> None:
    with Broker() as broker, channel_of(broker) as channel:
        declare(channel)
        channel.queue_declare("out")
        channel.queue_bind("out", "scoring", "#")
        channel.basic_publish("scoring", "any.key", b"question", mandatory=True)
        assert input_bodies(channel) == [b"question"]
        assert bodies(channel, "out") == []


def test_results_go_where_the_bindings_say_and_not_to_the_input() -> None:
    with Broker() as broker, channel_of(broker) as channel:
        declare(channel)
        for queue, key in (("high", "score.high"), ("all", "score.*")):
            channel.queue_declare(queue)
            channel.queue_bind(queue, "scoring", key)
        for key in ("score.high", "score.low"):
            channel.basic_publish("scoring", key, key.encode(), pika.BasicProperties(headers=RESULT))
        assert bodies(channel, "high") == [b"score.high"]
        assert bodies(channel, "all") == [b"score.high", b"score.low"]
        assert input_bodies(channel) == []


def test_a_result_that_is_published_again_arrives_once() -> None:
    with Broker() as broker, channel_of(broker) as channel:
        declare(channel)
        channel.queue_declare("out")
        channel.queue_bind("out", "scoring", "#")
        for number in (0, 1, 0, 1, 2):
            headers = {**RESULT, "x-deduplication-header": f"query/7/0/{number}"}
            channel.basic_publish("scoring", "k", b"%d" % number, pika.BasicProperties(headers=headers))
        assert bodies(channel, "out") == [b"0", b"1", b"2"]


def test_it_is_there_again_after_a_restart_with_its_input(tmp_path: Path) -> None:
    with Broker(data_dir=str(tmp_path)) as broker, channel_of(broker) as channel:
        declare(channel)
        channel.queue_declare("out", durable=True)
        channel.queue_bind("out", "scoring", "#")
        channel.basic_publish("scoring", "k", b"before", pika.BasicProperties(delivery_mode=2))
    with Broker(data_dir=str(tmp_path)) as broker, channel_of(broker) as channel:
        declare(channel)
        channel.basic_publish("scoring", "k", b"after", pika.BasicProperties(delivery_mode=2))
        assert input_bodies(channel) == [b"before", b"after"]
        for _ in range(2):
            headers = {**RESULT, "x-deduplication-header": "query/0/0/0"}
            channel.basic_publish("scoring", "k", b"result", pika.BasicProperties(headers=headers))
        assert bodies(channel, "out") == [b"result"]


def test_unbound_queues_get_no_more_results() -> None:
    with Broker() as broker, channel_of(broker) as channel:
        declare(channel)
        channel.queue_declare("out")
        channel.queue_bind("out", "scoring", "#")
        channel.queue_unbind("out", "scoring", "#")
        channel.basic_publish("scoring", "k", b"result", pika.BasicProperties(headers=RESULT))
        assert bodies(channel, "out") == []


@pytest.mark.parametrize("arguments", [{"x-pipeline": ""}, {"x-pipeline": 7}])
def test_what_is_no_name_of_a_pipeline_is_refused(arguments: dict[str, object]) -> None:
    with Broker() as broker, channel_of(broker) as channel:
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            channel.exchange_declare("scoring", "x-pipeline", durable=True, arguments=arguments)
        assert refused.value.reply_code == 406
        assert "'x-pipeline' must name the pipeline" in refused.value.reply_text


def test_whoever_may_not_make_the_input_may_not_make_the_exchange() -> None:
    with Broker() as broker:
        broker.add_user("narrow", "narrow")
        broker.set_permission("narrow", configure="^scoring$")
        with pika.BlockingConnection(pika.URLParameters(broker.url_of("narrow", "narrow"))) as connection:
            channel = connection.channel()
            with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
                declare(channel)
            assert refused.value.reply_code == 403
        with channel_of(broker) as channel, pytest.raises(pika.exceptions.ChannelClosedByBroker):
            channel.exchange_declare("scoring", passive=True)
