"""Queue: declare, bind, purge, delete, unbind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from warren.amqp import constants
from warren.amqp.fields import Table
from warren.amqp.methods.base import Method
from warren.amqp.reader import ArgumentReader
from warren.amqp.writer import ArgumentWriter


@dataclass
class QueueDeclare(Method):
    id: ClassVar[int] = constants.QUEUE_DECLARE
    name: ClassVar[str] = "queue.declare"

    ticket: int = 0
    queue: str = ""
    passive: bool = False
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    no_wait: bool = False
    arguments: Table = field(default_factory=dict)

    @staticmethod
    def decode(reader: ArgumentReader) -> QueueDeclare:
        ticket = reader.short()
        queue = reader.shortstr()
        bits = reader.octet()
        return QueueDeclare(
            ticket,
            queue,
            bits & 1 != 0,
            bits & 2 != 0,
            bits & 4 != 0,
            bits & 8 != 0,
            bits & 16 != 0,
            reader.table(),
        )

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.ticket)
        writer.shortstr(self.queue)
        writer.octet(self.passive | self.durable << 1 | self.exclusive << 2 | self.auto_delete << 3 | self.no_wait << 4)
        writer.table(self.arguments)


@dataclass
class QueueDeclareOk(Method):
    id: ClassVar[int] = constants.QUEUE_DECLARE_OK
    name: ClassVar[str] = "queue.declare-ok"

    queue: str = ""
    message_count: int = 0
    consumer_count: int = 0

    @staticmethod
    def decode(reader: ArgumentReader) -> QueueDeclareOk:
        return QueueDeclareOk(reader.shortstr(), reader.long(), reader.long())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.queue)
        writer.long(self.message_count)
        writer.long(self.consumer_count)


@dataclass
class QueueBind(Method):
    id: ClassVar[int] = constants.QUEUE_BIND
    name: ClassVar[str] = "queue.bind"

    ticket: int = 0
    queue: str = ""
    exchange: str = ""
    routing_key: str = ""
    no_wait: bool = False
    arguments: Table = field(default_factory=dict)

    @staticmethod
    def decode(reader: ArgumentReader) -> QueueBind:
        return QueueBind(
            reader.short(),
            reader.shortstr(),
            reader.shortstr(),
            reader.shortstr(),
            reader.octet() & 1 != 0,
            reader.table(),
        )

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.ticket)
        writer.shortstr(self.queue)
        writer.shortstr(self.exchange)
        writer.shortstr(self.routing_key)
        writer.octet(self.no_wait)
        writer.table(self.arguments)


@dataclass
class QueueBindOk(Method):
    id: ClassVar[int] = constants.QUEUE_BIND_OK
    name: ClassVar[str] = "queue.bind-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> QueueBindOk:
        return QueueBindOk()

    def encode(self, writer: ArgumentWriter) -> None:
        """Has no arguments."""


@dataclass
class QueuePurge(Method):
    id: ClassVar[int] = constants.QUEUE_PURGE
    name: ClassVar[str] = "queue.purge"

    ticket: int = 0
    queue: str = ""
    no_wait: bool = False

    @staticmethod
    def decode(reader: ArgumentReader) -> QueuePurge:
        return QueuePurge(
            reader.short(),
            reader.shortstr(),
            reader.octet() & 1 != 0,
        )

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.ticket)
        writer.shortstr(self.queue)
        writer.octet(self.no_wait)


@dataclass
class QueuePurgeOk(Method):
    id: ClassVar[int] = constants.QUEUE_PURGE_OK
    name: ClassVar[str] = "queue.purge-ok"

    message_count: int = 0

    @staticmethod
    def decode(reader: ArgumentReader) -> QueuePurgeOk:
        return QueuePurgeOk(reader.long())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.long(self.message_count)


@dataclass
class QueueDelete(Method):
    id: ClassVar[int] = constants.QUEUE_DELETE
    name: ClassVar[str] = "queue.delete"

    ticket: int = 0
    queue: str = ""
    if_unused: bool = False
    if_empty: bool = False
    no_wait: bool = False

    @staticmethod
    def decode(reader: ArgumentReader) -> QueueDelete:
        ticket = reader.short()
        queue = reader.shortstr()
        bits = reader.octet()
        return QueueDelete(ticket, queue, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.ticket)
        writer.shortstr(self.queue)
        writer.octet(self.if_unused | self.if_empty << 1 | self.no_wait << 2)


@dataclass
class QueueDeleteOk(Method):
    id: ClassVar[int] = constants.QUEUE_DELETE_OK
    name: ClassVar[str] = "queue.delete-ok"

    message_count: int = 0

    @staticmethod
    def decode(reader: ArgumentReader) -> QueueDeleteOk:
        return QueueDeleteOk(reader.long())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.long(self.message_count)


@dataclass
class QueueUnbind(Method):
    id: ClassVar[int] = constants.QUEUE_UNBIND
    name: ClassVar[str] = "queue.unbind"

    ticket: int = 0
    queue: str = ""
    exchange: str = ""
    routing_key: str = ""
    arguments: Table = field(default_factory=dict)

    @staticmethod
    def decode(reader: ArgumentReader) -> QueueUnbind:
        return QueueUnbind(reader.short(), reader.shortstr(), reader.shortstr(), reader.shortstr(), reader.table())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.ticket)
        writer.shortstr(self.queue)
        writer.shortstr(self.exchange)
        writer.shortstr(self.routing_key)
        writer.table(self.arguments)


@dataclass
class QueueUnbindOk(Method):
    id: ClassVar[int] = constants.QUEUE_UNBIND_OK
    name: ClassVar[str] = "queue.unbind-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> QueueUnbindOk:
        return QueueUnbindOk()

    def encode(self, writer: ArgumentWriter) -> None:
        """Has no arguments."""
