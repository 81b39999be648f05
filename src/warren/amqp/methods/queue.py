"""Queue: declare, bind, purge, delete, unbind."""

from __future__ import annotations

from typing import ClassVar

from warren.amqp import constants
from warren.amqp.fields import Table
from warren.amqp.methods.base import Method, Names
from warren.amqp.reader import ArgumentReader
from warren.amqp.writer import ArgumentWriter


class QueueDeclare(Method):
    id: ClassVar[int] = constants.QUEUE_DECLARE
    name: ClassVar[str] = "queue.declare"
    fields: ClassVar[Names] = (
        "ticket",
        "queue",
        "passive",
        "durable",
        "exclusive",
        "auto_delete",
        "no_wait",
        "arguments",
    )

    def __init__(
        self,
        ticket: int = 0,
        queue: str = "",
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        no_wait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.ticket = ticket
        self.queue = queue
        self.passive = passive
        self.durable = durable
        self.exclusive = exclusive
        self.auto_delete = auto_delete
        self.no_wait = no_wait
        self.arguments: Table = {} if arguments is None else arguments

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


class QueueDeclareOk(Method):
    id: ClassVar[int] = constants.QUEUE_DECLARE_OK
    name: ClassVar[str] = "queue.declare-ok"
    fields: ClassVar[Names] = ("queue", "message_count", "consumer_count")

    def __init__(self, queue: str = "", message_count: int = 0, consumer_count: int = 0) -> None:
        self.queue = queue
        self.message_count = message_count
        self.consumer_count = consumer_count

    @staticmethod
    def decode(reader: ArgumentReader) -> QueueDeclareOk:
        return QueueDeclareOk(reader.shortstr(), reader.long(), reader.long())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.queue)
        writer.long(self.message_count)
        writer.long(self.consumer_count)


class QueueBind(Method):
    id: ClassVar[int] = constants.QUEUE_BIND
    name: ClassVar[str] = "queue.bind"
    fields: ClassVar[Names] = ("ticket", "queue", "exchange", "routing_key", "no_wait", "arguments")

    def __init__(
        self,
        ticket: int = 0,
        queue: str = "",
        exchange: str = "",
        routing_key: str = "",
        no_wait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.ticket = ticket
        self.queue = queue
        self.exchange = exchange
        self.routing_key = routing_key
        self.no_wait = no_wait
        self.arguments: Table = {} if arguments is None else arguments

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


class QueueBindOk(Method):
    id: ClassVar[int] = constants.QUEUE_BIND_OK
    name: ClassVar[str] = "queue.bind-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> QueueBindOk:
        return QueueBindOk()


class QueuePurge(Method):
    id: ClassVar[int] = constants.QUEUE_PURGE
    name: ClassVar[str] = "queue.purge"
    fields: ClassVar[Names] = ("ticket", "queue", "no_wait")

    def __init__(self, ticket: int = 0, queue: str = "", no_wait: bool = False) -> None:
        self.ticket = ticket
        self.queue = queue
        self.no_wait = no_wait

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


class QueuePurgeOk(Method):
    id: ClassVar[int] = constants.QUEUE_PURGE_OK
    name: ClassVar[str] = "queue.purge-ok"
    fields: ClassVar[Names] = ("message_count",)

    def __init__(self, message_count: int = 0) -> None:
        self.message_count = message_count

    @staticmethod
    def decode(reader: ArgumentReader) -> QueuePurgeOk:
        return QueuePurgeOk(reader.long())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.long(self.message_count)


class QueueDelete(Method):
    id: ClassVar[int] = constants.QUEUE_DELETE
    name: ClassVar[str] = "queue.delete"
    fields: ClassVar[Names] = ("ticket", "queue", "if_unused", "if_empty", "no_wait")

    def __init__(
        self, ticket: int = 0, queue: str = "", if_unused: bool = False, if_empty: bool = False, no_wait: bool = False
    ) -> None:
        self.ticket = ticket
        self.queue = queue
        self.if_unused = if_unused
        self.if_empty = if_empty
        self.no_wait = no_wait

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


class QueueDeleteOk(Method):
    id: ClassVar[int] = constants.QUEUE_DELETE_OK
    name: ClassVar[str] = "queue.delete-ok"
    fields: ClassVar[Names] = ("message_count",)

    def __init__(self, message_count: int = 0) -> None:
        self.message_count = message_count

    @staticmethod
    def decode(reader: ArgumentReader) -> QueueDeleteOk:
        return QueueDeleteOk(reader.long())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.long(self.message_count)


class QueueUnbind(Method):
    id: ClassVar[int] = constants.QUEUE_UNBIND
    name: ClassVar[str] = "queue.unbind"
    fields: ClassVar[Names] = ("ticket", "queue", "exchange", "routing_key", "arguments")

    def __init__(
        self,
        ticket: int = 0,
        queue: str = "",
        exchange: str = "",
        routing_key: str = "",
        arguments: Table | None = None,
    ) -> None:
        self.ticket = ticket
        self.queue = queue
        self.exchange = exchange
        self.routing_key = routing_key
        self.arguments: Table = {} if arguments is None else arguments

    @staticmethod
    def decode(reader: ArgumentReader) -> QueueUnbind:
        return QueueUnbind(reader.short(), reader.shortstr(), reader.shortstr(), reader.shortstr(), reader.table())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.ticket)
        writer.shortstr(self.queue)
        writer.shortstr(self.exchange)
        writer.shortstr(self.routing_key)
        writer.table(self.arguments)


class QueueUnbindOk(Method):
    id: ClassVar[int] = constants.QUEUE_UNBIND_OK
    name: ClassVar[str] = "queue.unbind-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> QueueUnbindOk:
        return QueueUnbindOk()
