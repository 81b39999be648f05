"""The same doings in any broker with RabbitMQ's API, and what its event exchange and its firehose tell of them.

Every header is kept with its type octet; what two runs cannot have in common (processes, ports, times) is masked.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

import pika

from tests.differential import wire
from tests.differential.client import PATIENCE, Connection
from tests.management.scene import Api
from warren.amqp.fields import Field, Table
from warren.amqp.properties import Properties, decode_properties

# By event or message key, what was told each time: the headers, as texts.
Told = dict[str, list[dict[str, str]]]

VHOST: Final = "watched"
# Different from run to run, or from broker to broker.
_MASKED: Final = {
    "pid", "owner_pid", "channel", "connection", "name_of_connection", "node", "port", "peer_port", "connected_at",
    "timestamp_in_ms", "connection_name", "client_properties", "password_hash", "cluster_state", "queue_pid",
}  # fmt: skip
_HEARD: Final = "heard"


class Listener(Connection):
    """A connection that keeps content headers undecoded, types and all."""

    def __init__(self, port: int) -> None:
        super().__init__("127.0.0.1", port)
        self.login("guest", "guest", "/")
        self.channel(1)
        self._headers: list[bytes] = []

    def listen(self, exchange: str) -> None:
        self.call(1, "queue.declare", queue=_HEARD)
        self.call(1, "queue.bind", queue=_HEARD, exchange=exchange, routing_key="#")

    def told(self, last: str) -> Told:
        """All that was told up to the message with this key."""
        found: Told = {}
        deadline = time.monotonic() + PATIENCE
        while last not in found:
            event = self.call(1, "basic.get", queue=_HEARD, no_ack=True)
            if event.name == "basic.get-ok":
                headers = properties_in(self._headers.pop()).headers or {}
                found.setdefault(event.text("routing_key"), []).append(shown(headers))
            elif time.monotonic() > deadline:
                raise RuntimeError(f"{last} was not told, only {sorted(found)}")
            else:
                time.sleep(0.02)
        return found

    def _take_in(self, kind: int, channel: int, payload: bytes) -> None:
        if kind == wire.HEADER:
            self._headers.append(payload)
        super()._take_in(kind, channel, payload)


def properties_in(payload: bytes) -> Properties:
    return decode_properties(payload, 12, len(payload))


def shown(table: Table) -> dict[str, str]:
    return {name: _shown(name, table[name]) for name in sorted(table)}


def _shown(name: str, field: Field) -> str:
    value = field.value
    if name in _MASKED:
        return f"{field.tag}:*"
    if isinstance(value, dict):
        return f"{field.tag}:" + str({key: _shown(key, value[key]) for key in sorted(value)})
    if isinstance(value, list):
        return f"{field.tag}:" + str([_shown("", each) for each in value])
    if name == "name" and isinstance(value, str) and " -> " in value:
        return re.sub(r"\d+(?= |$)", "*", f"{field.tag}:{value}")
    return f"{field.tag}:" + str(value)


@contextlib.contextmanager
def client(
    port: int, user: str = "guest", password: str = "guest", vhost: str = VHOST
) -> Iterator[pika.BlockingConnection]:
    login = pika.PlainCredentials(user, password)
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, vhost, login)) as connection:
        yield connection


def events(api: Api, port: int) -> Told:
    """Something of every kind is made, changed and removed."""
    listener = Listener(port)
    listener.listen("amq.rabbitmq.event")
    _administer(api, port)
    _use(api, port)
    _clear(api)
    told = listener.told("vhost.deleted")
    listener.call(1, "queue.delete", queue=_HEARD)
    listener.close()
    return told


def _administer(api: Api, port: int) -> None:
    api.ask("PUT", f"/api/vhosts/{VHOST}", {"description": "for watching", "tags": "a,b"})
    api.ask("PUT", f"/api/vhosts/{VHOST}", {"description": "changed", "tags": "a"})
    api.ask("PUT", "/api/users/actor", {"password": "secret", "tags": "management"})
    api.ask("PUT", "/api/users/actor", {"password": "secret2", "tags": "monitoring,management"})
    api.ask("PUT", f"/api/permissions/{VHOST}/actor", {"configure": "a", "write": "b", "read": "c"})
    api.ask("PUT", f"/api/permissions/{VHOST}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    api.ask("PUT", f"/api/topic-permissions/{VHOST}/actor", {"exchange": "amq.topic", "write": "b", "read": "c"})
    rule = {"pattern": "^q", "definition": {"max-length": 50}, "priority": 1, "apply-to": "queues"}
    api.ask("PUT", f"/api/policies/{VHOST}/short", rule)
    api.ask("PUT", f"/api/operator-policies/{VHOST}/shorter", {**rule, "definition": {"max-length": 40}})
    api.ask("PUT", f"/api/vhost-limits/{VHOST}/max-queues", {"value": 100})
    api.ask("PUT", "/api/user-limits/actor/max-channels", {"value": 100})
    api.ask("PUT", "/api/global-parameters/motto", {"value": {"a": 1}})
    with contextlib.suppress(pika.exceptions.AMQPError), client(port, "actor", "wrong"):
        pass


def _use(api: Api, port: int) -> None:
    with client(port) as connection:
        channel = connection.channel()
        channel.exchange_declare("stage", "topic", durable=True, arguments={"alternate-exchange": "amq.fanout"})
        channel.queue_declare("q", durable=True, arguments={"x-max-length": 9, "x-dead-letter-exchange": "stage"})
        channel.queue_declare("own", exclusive=True, auto_delete=True)
        channel.queue_bind("q", "stage", "a.#", {"how": "much", "many": 3})
        channel.exchange_bind("amq.fanout", "stage", "b")
        late = {"pattern": "^q$", "definition": {"max-length": 8}, "priority": 9, "apply-to": "queues"}
        api.ask("PUT", f"/api/policies/{VHOST}/late", late)
        api.ask("DELETE", f"/api/policies/{VHOST}/late")
        channel.basic_qos(prefetch_count=7)
        tag = channel.basic_consume("q", lambda *_: None, consumer_tag="tag", arguments={"x-priority": 1})
        channel.basic_cancel(tag)
        channel.queue_unbind("q", "stage", "a.#", {"how": "much", "many": 3})
        channel.queue_delete("q")
        channel.exchange_delete("stage")
        channel.close()


def _clear(api: Api) -> None:
    api.ask("DELETE", "/api/global-parameters/motto")
    api.ask("DELETE", "/api/user-limits/actor/max-channels")
    api.ask("DELETE", f"/api/vhost-limits/{VHOST}/max-queues")
    api.ask("DELETE", f"/api/operator-policies/{VHOST}/shorter")
    api.ask("DELETE", f"/api/policies/{VHOST}/short")
    api.ask("DELETE", f"/api/topic-permissions/{VHOST}/actor")
    api.ask("DELETE", f"/api/permissions/{VHOST}/actor")
    api.ask("DELETE", "/api/users/actor")
    api.ask("DELETE", f"/api/vhosts/{VHOST}")


EVERYTHING: Final = pika.BasicProperties(
    content_type="text/plain", content_encoding="utf-8", headers={"CC": ["copy"], "n": 1, "t": {"deep": [True, "x"]}},
    delivery_mode=2, priority=3, correlation_id="c", reply_to="r", expiration="60000", message_id="m", timestamp=1234,
    type="t", user_id="guest", app_id="app", cluster_id="cluster",
)  # fmt: skip


def firehose(api: Api, port: int) -> Told:
    """Publishes and deliveries of every kind in the default vhost."""
    listener = Listener(port)
    listener.listen("amq.rabbitmq.trace")
    api.ask("PUT", f"/api/vhosts/{quote('/', safe='')}", {"tracing": True})
    with client(port, vhost="/") as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for name in ("q", "copy"):
            channel.queue_declare(name)
        channel.queue_bind("q", "amq.topic", "a.*")
        channel.basic_publish("amq.topic", "a.b", b"one", EVERYTHING)
        channel.basic_publish("amq.direct", "nowhere", b"lost")
        channel.basic_publish("", "copy", b"two", pika.BasicProperties(headers={"BCC": ["q"]}))
        tag = channel.basic_get("q")[0].delivery_tag
        channel.basic_nack(tag, requeue=True)
        for method, _, _ in channel.consume("q", inactivity_timeout=PATIENCE):
            channel.basic_ack(method.delivery_tag)
            if not method.redelivered:
                break
        channel.cancel()
        channel.basic_get("copy", auto_ack=True)
        for name in ("q", "copy"):
            channel.queue_delete(name)
    told = listener.told("deliver.copy")
    api.ask("PUT", f"/api/vhosts/{quote('/', safe='')}", {"tracing": False})
    listener.call(1, "queue.delete", queue=_HEARD)
    listener.close()
    return told
