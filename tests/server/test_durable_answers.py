"""Nothing is answered that is not durable, and nobody waits for somebody else's sync."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.error import HTTPError

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exchange_type import ExchangeType

import warren.server.life as life
from warren import Broker
from warren.store.disk import RealDisk

GATE: Final = threading.Event()
FAILS: Final = threading.Event()


class SlowDisk:
    """Its syncs end when the gate is open. Not a subclass: the real one may be compiled."""

    def __init__(self, directory: Path) -> None:
        self._disk = RealDisk(directory)

    def __getattr__(self, name: str) -> object:
        return getattr(self._disk, name)

    def sync(self, handle: int) -> None:
        assert GATE.wait(60)
        if FAILS.is_set():
            raise OSError(5, "Input/output error")
        self._disk.sync(handle)


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    monkeypatch.setitem(vars(life), "RealDisk", SlowDisk)
    GATE.set()
    FAILS.clear()
    with Broker(data_dir=str(tmp_path), http_port=0) as broker:
        with connected(broker) as channel:
            channel.queue_declare("there", durable=True)
            channel.exchange_declare("from", ExchangeType.fanout, durable=True)
            channel.exchange_declare("to", ExchangeType.fanout, durable=True)
            channel.queue_bind("there", "from")
            channel.exchange_bind("to", "from")
            channel.basic_publish("", "there", b"m", pika.BasicProperties(delivery_mode=2))
        yield broker
        GATE.set()


@contextmanager
def connected(broker: Broker) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        yield connection.channel()


@contextmanager
def closed_gate() -> Iterator[None]:
    GATE.clear()
    try:
        yield
    finally:
        GATE.set()


# Every method that is answered and changes what is declared, or empties a queue.
CHANGES: Final[dict[str, Callable[[BlockingChannel], object]]] = {
    "queue.declare": lambda channel: channel.queue_declare("new", durable=True),
    "queue.bind": lambda channel: channel.queue_bind("there", "to"),
    "queue.unbind": lambda channel: channel.queue_unbind("there", "from"),
    "queue.purge": lambda channel: channel.queue_purge("there"),
    "queue.delete": lambda channel: channel.queue_delete("there"),
    "exchange.declare": lambda channel: channel.exchange_declare("new", ExchangeType.topic, durable=True),
    "exchange.delete": lambda channel: channel.exchange_delete("to"),
    "exchange.bind": lambda channel: channel.exchange_bind("from", "to"),
    "exchange.unbind": lambda channel: channel.exchange_unbind("to", "from"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_answered_when_it_is_durable_and_others_do_not_wait(broker: Broker, name: str) -> None:
    with connected(broker) as channel, connected(broker) as other, ThreadPoolExecutor(1) as threads:
        with closed_gate():
            answer = threads.submit(CHANGES[name], channel)
            # Whole round trips of somebody else, while the sync is under way.
            for number in range(50):
                other.queue_declare(f"passing{number}", exclusive=True)
                other.basic_publish("", f"passing{number}", b"x")
                assert other.basic_get(f"passing{number}", auto_ack=True)[2] == b"x"
            assert not answer.done()
        answer.result(30)


def test_who_asks_for_what_is_being_declared_waits_as_well(broker: Broker) -> None:
    with connected(broker) as channel, connected(broker) as other, ThreadPoolExecutor(2) as threads:
        with closed_gate():
            declared = threads.submit(channel.queue_declare, "new", durable=True)
            # Until it is there for others.
            while ask(broker, "GET", "queues/%2F/new", None) != 200:
                pass
            seen = threads.submit(other.queue_declare, "new", passive=True)
            assert not declared.done()
            assert not seen.done()
        declared.result(30)
        seen.result(30)


REQUESTS: Final = [
    ("PUT", "queues/%2F/new", {"durable": True}),
    ("DELETE", "queues/%2F/there", None),
    ("DELETE", "queues/%2F/there/contents", None),
    ("PUT", "exchanges/%2F/new", {"type": "topic", "durable": True}),
    ("POST", "bindings/%2F/e/from/q/there", {"routing_key": "k"}),
    ("PUT", "users/new", {"password": "p", "tags": ""}),
    ("PUT", "vhosts/new", {}),
    ("PUT", "permissions/%2F/guest", {"configure": ".*", "write": ".*", "read": ".*"}),
    ("PUT", "policies/%2F/p", {"pattern": "x", "definition": {"max-length": 1}}),
    ("PUT", "global-parameters/p", {"name": "p", "value": 1}),
    ("POST", "definitions", {"queues": [{"name": "n", "vhost": "/", "durable": True, "arguments": {}}]}),
    ("POST", "queues/%2F/there/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}),
]


def ask(broker: Broker, method: str, path: str, body: object) -> int:
    request = urllib.request.Request(f"{broker.http_url}/api/{path}", method=method)
    request.add_header("Authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, None if body is None else json.dumps(body).encode(), 60) as answer:
            return int(answer.status)
    except HTTPError as error:
        error.close()
        return error.code


@pytest.mark.parametrize(("method", "path", "body"), REQUESTS)
def test_a_change_over_http_is_answered_when_it_is_durable(
    broker: Broker, method: str, path: str, body: object
) -> None:
    with ThreadPoolExecutor(1) as threads:
        with closed_gate():
            answer = threads.submit(ask, broker, method, path, body)
            for _ in range(5):
                assert ask(broker, "GET", "overview", None) == 200
            assert not answer.done()
        assert answer.result(30) in (200, 201, 204)


def test_after_a_failed_sync_no_change_is_answered_with_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vars(life), "RealDisk", SlowDisk)
    GATE.set()
    FAILS.clear()
    with Broker(data_dir=str(tmp_path), http_port=0) as broker, ThreadPoolExecutor(1) as threads:
        with closed_gate():
            answer = threads.submit(ask, broker, *REQUESTS[0])
            assert ask(broker, "GET", "overview", None) == 200
            FAILS.set()
        assert answer.result(30) == 503
        assert {ask(broker, *request) for request in REQUESTS} == {503}
        assert ask(broker, "GET", "queues/%2F", None) == 200
