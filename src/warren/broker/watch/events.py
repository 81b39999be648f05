"""amq.rabbitmq.event: what happens in the broker, as messages that anybody can bind a queue for.

A topic exchange in the default vhost; keys such as queue.created, connection.closed, user.authentication.failure and
alarm.set, the facts in the headers, as RabbitMQ's plug-in has them: numbers are long, arguments and addresses written
as Erlang writes them, and whoever is behind a change is named. Without a binding an event costs one look.
"""

from __future__ import annotations

from typing import Final

from warren.amqp.fields import Field, Table, field_of
from warren.amqp.properties import Properties
from warren.broker.exchanges.base import Binding, Exchange
from warren.broker.queue.consumer import Consumer
from warren.broker.queue.listener import INTERNAL, EventListener
from warren.broker.queue.outlet import Outlet
from warren.broker.queue.queue import Queue
from warren.broker.queue.recipient import Recipient
from warren.broker.session.channel import Channel
from warren.broker.session.connection import Connection
from warren.broker.terms import erlang_address, erlang_argument
from warren.broker.vhost.realm import Realm
from warren.broker.watch.own_messages import OwnMessages
from warren.broker.world import INFO

EVENT_EXCHANGE: Final = "amq.rabbitmq.event"
_PROTOCOL: Final = "{0,9,1}"
# Logged are changes of rules and people, not of what clients come and go with; by these facts, because others may be
# secrets.
_COMMON: Final = ("queue.", "exchange.", "binding.")
_NAMES: Final = ("vhost", "component", "user", "username", "name", "exchange", "tags", "pattern")


class Events(EventListener):
    def __init__(self, node: Realm) -> None:
        super().__init__()
        self._node = node
        self._own = OwnMessages(node.errands)

    def has_listeners(self) -> bool:
        vhost = self._node.vhosts.get(self._node.settings.default_vhost)
        exchange = None if vhost is None else vhost.exchanges.get(EVENT_EXCHANGE)
        return exchange is not None and not exchange.leads_nowhere()

    def emit(self, key: str, facts: dict[str, object]) -> None:
        if not self.has_listeners():
            return
        headers: Table = {"timestamp_in_ms": Field("l", self._node.now)}
        for name in facts:
            if facts[name] is not None:
                headers[name] = _field(facts[name])
        properties = Properties(headers=headers, delivery_mode=2, timestamp=self._node.wall_seconds())
        vhost = self._node.vhosts[self._node.settings.default_vhost]
        self._own.publish(vhost, EVENT_EXCHANGE, key, properties, b"", None)
        self._node.wake()

    def done(self, key: str, facts: dict[str, object]) -> None:
        """Somebody changed something."""
        if self.actor != INTERNAL and not key.startswith(_COMMON):
            named = [f"{name}={facts[name]!r}" for name in _NAMES if name in facts]
            self._node.host.log(INFO, f"{key} by user '{self.actor}' from {self.place}: {', '.join(named)}")
        self.emit(key, {**facts, "user_who_performed_action": self.actor})

    def queue(self, verb: str, queue: Queue) -> None:
        if not self.has_listeners():
            return
        facts: dict[str, object] = {"name": queue.name, "vhost": queue.vhost}
        if verb == "created":
            owner = queue.exclusive_owner
            facts.update(
                durable=queue.durable,
                auto_delete=queue.auto_delete,
                exclusive=owner is not None,
                owner_pid="" if owner is None else owner.name,
                arguments=_shown(queue.arguments),
            )
        self.done(f"queue.{verb}", facts)

    def queue_policy(self, queue: Queue, policy: dict[str, object]) -> None:
        """`policy` is the one that was set; empty when one was cleared."""
        if not self.has_listeners():
            return
        facts = {**policy, "name": queue.name, "vhost": queue.vhost, "type": f"rabbit_{queue.type}_queue"}
        self.done("queue.policy.updated" if policy else "queue.policy.cleared", facts)

    def exchange(self, verb: str, exchange: Exchange) -> None:
        if not self.has_listeners():
            return
        facts: dict[str, object] = {"name": exchange.name, "vhost": exchange.vhost}
        if verb == "created":
            facts.update(
                type=exchange.type,
                durable=exchange.durable,
                auto_delete=exchange.auto_delete,
                internal=exchange.internal,
                arguments=_shown(exchange.arguments),
                policy=exchange.policy or "",
            )
        self.done(f"exchange.{verb}", facts)

    def binding(self, verb: str, vhost: str, binding: Binding) -> None:
        if not self.has_listeners():
            return
        destination = binding.destination
        self.done(
            f"binding.{verb}",
            {
                "source_name": binding.source,
                "source_kind": "exchange",
                "destination_name": destination.name,
                "destination_kind": "exchange" if destination.is_exchange else "queue",
                "routing_key": binding.routing_key,
                "arguments": _shown(binding.arguments),
                "vhost": vhost,
            },
        )

    def connection(self, verb: str, connection: Outlet) -> None:
        if not self.has_listeners():
            return
        assert isinstance(connection, Connection)
        facts: dict[str, object] = {
            "name": connection.name,
            "pid": connection.name,
            "node": self._node.settings.node_name,
            "client_properties": _shown(connection.client_properties),
        }
        if verb == "created":
            facts.update(
                vhost="" if connection.vhost is None else connection.vhost.name,
                user=connection.user,
                user_who_performed_action=connection.user,
                protocol=_PROTOCOL,
                auth_mechanism=connection.mechanism,
                ssl=connection.tls,
                ssl_protocol="",
                ssl_cipher="",
                ssl_hash="",
                ssl_key_exchange="",
                peer_cert_subject=connection.tls_subject or "",
                peer_cert_issuer="",
                peer_cert_validity="",
                host=erlang_address(connection.host),
                port=connection.port,
                peer_host=erlang_address(connection.peer_host),
                peer_port=connection.peer_port,
                channel_max=int(connection.channel_max),
                frame_max=int(connection.frame_max),
                timeout=int(connection.heartbeat),
                connected_at=int(connection.connected_at),
                type="network",
            )
        self.emit(f"connection.{verb}", facts)

    def login(self, is_right: bool, connection: Outlet, user: str) -> None:
        if not self.has_listeners():
            return
        assert isinstance(connection, Connection)
        facts: dict[str, object] = {
            "name": user,
            "connection_name": connection.name,
            "connection_type": "network",
            "protocol": _PROTOCOL,
            "auth_mechanism": connection.mechanism,
            "ssl": connection.tls,
            "host": erlang_address(connection.host),
            "peer_host": erlang_address(connection.peer_host),
            "peer_port": connection.peer_port,
        }
        if not is_right:
            facts["error"] = f"user '{user}' - invalid credentials"
        self.emit("user.authentication.success" if is_right else "user.authentication.failure", facts)

    def channel(self, verb: str, channel: Recipient) -> None:
        if not self.has_listeners():
            return
        assert isinstance(channel, Channel)
        name = f"{channel.connection.name} ({channel.number})"
        facts: dict[str, object] = {
            "name": name,
            "pid": name,
            "connection": channel.connection.name,
            "user_who_performed_action": channel.user,
        }
        if verb == "created":
            facts.update(number=int(channel.number), user=channel.user, vhost=channel.vhost.name)
        self.emit(f"channel.{verb}", facts)

    def consumer(self, verb: str, consumer: Consumer) -> None:
        if not self.has_listeners():
            return
        facts: dict[str, object] = {
            "consumer_tag": consumer.tag,
            "queue": consumer.queue.name,
            "vhost": consumer.queue.vhost,
            "channel": f"{consumer.channel.outlet.name} ({consumer.channel.number})",
            "user_who_performed_action": consumer.channel.user,
        }
        if verb == "created":
            facts.update(
                ack_required=not consumer.no_ack,
                exclusive=consumer.exclusive,
                prefetch_count=int(consumer.prefetch),
                arguments=_shown(consumer.arguments),
            )
        self.emit(f"consumer.{verb}", facts)


def _shown(table: Table) -> list[object]:
    """Tables stand in a list of texts, for headers that can be matched are flat."""
    return [erlang_argument(name, table[name]) for name in table]


def _field(value: object) -> Field:
    """As RabbitMQ's own events have them: every number is a long one, and nothing is a word."""
    if value is None:
        return Field("S", "undefined")
    if isinstance(value, int) and not isinstance(value, bool):
        return Field("l", value)
    if isinstance(value, list):
        return Field("A", [_field(each) for each in value])
    if isinstance(value, dict):
        return Field("F", {str(name): _field(each) for name, each in value.items()})
    return field_of(value)
