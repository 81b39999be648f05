"""Warren in this process, administered on its own thread as its management API would."""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import Iterator

from tests.differential.brokers import Address, Broker
from warren import testing
from warren.broker.node import Node
from warren.broker.operate import administer
from warren.broker.rules.access import User
from warren.broker.settings import MIB


class NodeAdmin:
    def __init__(self, broker: testing.Broker) -> None:
        self._broker = broker

    def add_user(
        self,
        name: str,
        password: str,
        tags: str = "",
        vhost: str = "/",
        configure: str = ".*",
        write: str = ".*",
        read: str = ".*",
    ) -> None:
        salt = b"salt"
        digest = base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()
        user = User(name, digest, "rabbit_password_hashing_sha256", tags.split())
        self._broker.call(lambda node: administer.put_user(node, user))
        if vhost:
            self.set_permissions(name, vhost, configure, write, read)

    def set_permissions(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        self._broker.call(lambda node: administer.set_permission(node, user, vhost, configure, write, read))

    def set_topic_permission(self, user: str, exchange: str, write: str, read: str, vhost: str = "/") -> None:
        self._broker.call(lambda node: administer.set_topic_permission(node, user, vhost, exchange, write, read))

    def set_password(self, user: str, password: str) -> None:
        self.add_user(user, password, vhost="")

    def set_user_limit(self, user: str, limit: str, value: int) -> None:
        self._broker.call(lambda node: administer.set_user_limits(node, user, {limit: value}))

    def delete_user(self, name: str) -> None:
        self._broker.call(lambda node: administer.delete_user(node, name))

    def add_vhost(self, name: str) -> None:
        self._broker.call(lambda node: node.add_vhost(name))
        self.set_permissions("guest", name, ".*", ".*", ".*")

    def set_vhost_limit(self, vhost: str, limit: str, value: int) -> None:
        self._broker.call(lambda node: administer.set_vhost_limits(node, vhost, {limit: value}))

    def delete_vhost(self, name: str) -> None:
        self._broker.call(lambda node: administer.delete_vhost(node, name))

    def set_policy(
        self, name: str, pattern: str, definition: dict[str, object], apply_to: str = "all", vhost: str = "/"
    ) -> None:
        self._broker.call(lambda node: administer.set_policy(node, vhost, name, pattern, definition, 0, apply_to))

    def delete_policy(self, name: str, vhost: str = "/") -> None:
        self._broker.call(lambda node: administer.delete_policy(node, vhost, name))

    def close_connections_of(self, user: str, reason: str) -> None:
        self._broker.call(lambda node: _close_connections_of(node, user, reason))

    def set_alarm(self, name: str, on: bool) -> None:
        self._broker.call(lambda node: node.set_alarm(name, on))

    def shut_down(self) -> None:
        self._broker.call(lambda node: node.begin_shutdown("shutdown"))


def _close_connections_of(node: Node, user: str, reason: str) -> None:
    for connection in list(node.connections.values()):
        if connection.user == user:
            connection.close_by_admin(reason)


@contextlib.contextmanager
def start() -> Iterator[Broker]:
    # RabbitMQ 3.10.8's limit; ours is that of RabbitMQ 4.
    with testing.Broker(max_message_size=128 * MIB) as broker:
        yield Broker("warren", Address("127.0.0.1", broker.port), NodeAdmin(broker))
