"""Who may do what: the same over AMQP and HTTP for every permission, and for every tag the same as in RabbitMQ."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Final

import pika
import pytest

from tests.management.asking import Asking
from tests.management.scene import PATHS, TAGS, Api, played, statuses_of_all
from tests.management.test_keys import RECORDED
from warren import Broker

# Where a tag is answered otherwise than in RabbitMQ 3.10.8, and why.
OTHERWISE: Final = {
    "/api/connections/username/guest": "RabbitMQ fails with 500 for users who are no monitors",
    "/api/vhosts/scene": "whoever sees a vhost in the list of all sees it alone too, as in later releases",
}


@pytest.fixture(scope="module")
def ours() -> dict[str, dict[str, int]]:
    with Broker(http=True) as broker:
        api = Api(int(broker.http_url.rpartition(":")[2]))
        with played(api, broker.port) as names:
            return statuses_of_all(api, names)


@pytest.mark.parametrize("tag", TAGS)
def test_a_tag_opens_what_it_opens_in_rabbitmq(tag: str, ours: dict[str, dict[str, int]]) -> None:
    theirs: dict[str, int] = json.loads(RECORDED.read_text())["statuses"][tag]
    different = {path for path in PATHS if ours[tag][path] != theirs[path]}
    assert different - set(OTHERWISE) == set()


def test_no_status_is_a_fault_of_ours(ours: dict[str, dict[str, int]]) -> None:
    assert {status for paths in ours.values() for status in paths.values()} <= {200, 401}


Rights = tuple[bool, bool, bool]
RIGHTS: Final = list(itertools.product((True, False), repeat=3))


class Both:
    """One user with some rights, who tries the same thing over AMQP and over HTTP."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._http = Asking(broker, "matrix:secret")
        broker.add_user("matrix", "secret", ["management"])

    def allow(self, rights: Rights) -> None:
        patterns = [".*" if right else "^$" for right in rights]
        self._broker.set_permission("matrix", "/", *patterns)

    def amqp(self, act: Callable[[pika.adapters.blocking_connection.BlockingChannel], object]) -> bool:
        with pika.BlockingConnection(pika.URLParameters(self._broker.url_of("matrix", "secret"))) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            try:
                act(channel)
            except pika.exceptions.ChannelClosedByBroker as closed:
                assert closed.reply_code == 403
                return False
            return True

    def http(self, method: str, path: str, body: object = None) -> bool:
        answer = self._http.ask(method, path, body)
        assert answer.status in (200, 201, 204, 401), answer.text
        return answer.status != 401


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    with Broker(http=True) as broker, pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.exchange_declare("x", "fanout")
        channel.queue_bind("q", "x")
        for _ in range(100):
            channel.basic_publish("", "q", b"m")
        yield Both(broker)


MESSAGE: Final = {"properties": {}, "routing_key": "q", "payload": "m", "payload_encoding": "string"}
GET: Final = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}


@pytest.mark.parametrize("rights", RIGHTS)
def test_permissions_mean_the_same_over_amqp_and_http(both: Both, rights: Rights) -> None:
    configure, write, read = rights
    both.allow(rights)
    queue, exchange = "/api/queues/%2F/q", "/api/exchanges/%2F/x"
    tried = {
        "declare a queue": (configure, both.amqp(lambda c: c.queue_declare("q")), both.http("PUT", queue, {})),
        "declare an exchange": (
            configure,
            both.amqp(lambda c: c.exchange_declare("x", "fanout")),
            both.http("PUT", exchange, {"type": "fanout"}),
        ),
        "bind": (
            write and read,
            both.amqp(lambda c: c.queue_bind("q", "x", "k")),
            both.http("POST", "/api/bindings/%2F/e/x/q/q", {"routing_key": "k"}),
        ),
        "get": (read, both.amqp(lambda c: c.basic_get("q", auto_ack=True)), both.http("POST", f"{queue}/get", GET)),
        "peek": (read, read, both.http("GET", f"{queue}/messages")),
    }
    assert {name: (amqp, http) for name, (_, amqp, http) in tried.items()} == {
        name: (expected, expected) for name, (expected, _, _) in tried.items()
    }


@pytest.mark.parametrize("rights", RIGHTS)
def test_publishing_means_the_same_over_amqp_and_http(broker: Broker, rights: Rights) -> None:
    own = Both(broker)
    own.allow(rights)
    # The API tells a refused publish as the channel was closed: 400 with the reason.
    answer = Asking(broker, "matrix:secret").post("/api/exchanges/%2F/amq.fanout/publish", MESSAGE)
    assert own.amqp(lambda c: c.basic_publish("amq.fanout", "q", b"m")) == rights[1]
    assert answer.status == (200 if rights[1] else 400)
    assert ("ACCESS_REFUSED" in answer.text) != rights[1]
