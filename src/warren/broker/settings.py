"""Numbers that bound a node. config.py fills them from file, environment and flags."""

from __future__ import annotations

from dataclasses import dataclass, field

MIB = 1024 * 1024


@dataclass
class Settings:
    node_name: str = "warren@localhost"
    cluster_name: str = "warren@localhost"
    frame_max: int = 131072
    channel_max: int = 2047
    heartbeat: int = 60
    handshake_timeout_ms: int = 10_000
    handshake_bytes_max: int = 65536
    max_message_size: int = 16 * MIB
    # Of quorum queues that have none of their own; -1 = none.
    delivery_limit: int = 20
    # Bytes held for a peer: of answers to one connection that it has not read and to all of them (0 = any number),
    # how long it may leave them, of bodies whose rest is still to come on all connections (0 = any number).
    unread_max: int = 8 * MIB
    unread_total_max: int = 0
    unread_timeout_ms: int = 60_000
    unfinished_max: int = 0
    # 0 = never: RabbitMQ's 30 minutes kill long tasks (see docs); a queue may still set x-consumer-timeout.
    consumer_timeout_ms: int = 0
    connection_max: int = 0
    # Of one address in a minute; 0 = any number.
    login_failures_max: int = 60
    mechanisms: list[str] = field(default_factory=lambda: ["PLAIN", "AMQPLAIN"])
    loopback_users: list[str] = field(default_factory=lambda: ["guest"])
    default_vhost: str = "/"
    default_user: str = "guest"
    default_password: str = "guest"
