"""Exchange: declare, delete, and the bindings between exchanges."""

from __future__ import annotations

from typing import ClassVar

from warren.amqp import constants
from warren.amqp.fields import Table
from warren.amqp.methods.base import Method, Names
from warren.amqp.reader import ArgumentReader
from warren.amqp.writer import ArgumentWriter


class ExchangeDeclare(Method):
    id: ClassVar[int] = constants.EXCHANGE_DECLARE
    name: ClassVar[str] = "exchange.declare"
    fields: ClassVar[Names] = (
        "ticket",
        "exchange",
        "type",
        "passive",
        "durable",
        "auto_delete",
        "internal",
        "no_wait",
        "arguments",
    )

    def __init__(
        self,
        ticket: int = 0,
        exchange: str = "",
        type: str = "direct",
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        no_wait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.ticket = ticket
        self.exchange = exchange
        self.type = type
        self.passive = passive
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.no_wait = no_wait
        self.arguments: Table = {} if arguments is None else arguments

    @staticmethod
    def decode(reader: ArgumentReader) -> ExchangeDeclare:
        ticket = reader.short()
        exchange = reader.shortstr()
        type = reader.shortstr()
        bits = reader.octet()
        return ExchangeDeclare(
            ticket,
            exchange,
            type,
            bits & 1 != 0,
            bits & 2 != 0,
            bits & 4 != 0,
            bits & 8 != 0,
            bits & 16 != 0,
            reader.table(),
        )

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.ticket)
        writer.shortstr(self.exchange)
        writer.shortstr(self.type)
        writer.octet(self.passive | self.durable << 1 | self.auto_delete << 2 | self.internal << 3 | self.no_wait << 4)
        writer.table(self.arguments)


class ExchangeDeclareOk(Method):
    id: ClassVar[int] = constants.EXCHANGE_DECLARE_OK
    name: ClassVar[str] = "exchange.declare-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> ExchangeDeclareOk:
        return ExchangeDeclareOk()


class ExchangeDelete(Method):
    id: ClassVar[int] = constants.EXCHANGE_DELETE
    name: ClassVar[str] = "exchange.delete"
    fields: ClassVar[Names] = ("ticket", "exchange", "if_unused", "no_wait")

    def __init__(self, ticket: int = 0, exchange: str = "", if_unused: bool = False, no_wait: bool = False) -> None:
        self.ticket = ticket
        self.exchange = exchange
        self.if_unused = if_unused
        self.no_wait = no_wait

    @staticmethod
    def decode(reader: ArgumentReader) -> ExchangeDelete:
        ticket = reader.short()
        exchange = reader.shortstr()
        bits = reader.octet()
        return ExchangeDelete(ticket, exchange, bits & 1 != 0, bits & 2 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.ticket)
        writer.shortstr(self.exchange)
        writer.octet(self.if_unused | self.no_wait << 1)


class ExchangeDeleteOk(Method):
    id: ClassVar[int] = constants.EXCHANGE_DELETE_OK
    name: ClassVar[str] = "exchange.delete-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> ExchangeDeleteOk:
        return ExchangeDeleteOk()


class ExchangeBind(Method):
    id: ClassVar[int] = constants.EXCHANGE_BIND
    name: ClassVar[str] = "exchange.bind"
    fields: ClassVar[Names] = ("ticket", "destination", "source", "routing_key", "no_wait", "arguments")

    def __init__(
        self,
        ticket: int = 0,
        destination: str = "",
        source: str = "",
        routing_key: str = "",
        no_wait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.ticket = ticket
        self.destination = destination
        self.source = source
        self.routing_key = routing_key
        self.no_wait = no_wait
        self.arguments: Table = {} if arguments is None else arguments

    @staticmethod
    def decode(reader: ArgumentReader) -> ExchangeBind:
        return ExchangeBind(
            reader.short(),
            reader.shortstr(),
            reader.shortstr(),
            reader.shortstr(),
            reader.octet() & 1 != 0,
            reader.table(),
        )

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.ticket)
        writer.shortstr(self.destination)
        writer.shortstr(self.source)
        writer.shortstr(self.routing_key)
        writer.octet(self.no_wait)
        writer.table(self.arguments)


class ExchangeBindOk(Method):
    id: ClassVar[int] = constants.EXCHANGE_BIND_OK
    name: ClassVar[str] = "exchange.bind-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> ExchangeBindOk:
        return ExchangeBindOk()


class ExchangeUnbind(Method):
    id: ClassVar[int] = constants.EXCHANGE_UNBIND
    name: ClassVar[str] = "exchange.unbind"
    fields: ClassVar[Names] = ("ticket", "destination", "source", "routing_key", "no_wait", "arguments")

    def __init__(
        self,
        ticket: int = 0,
        destination: str = "",
        source: str = "",
        routing_key: str = "",
        no_wait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.ticket = ticket
        self.destination = destination
        self.source = source
        self.routing_key = routing_key
        self.no_wait = no_wait
        self.arguments: Table = {} if arguments is None else arguments

    @staticmethod
    def decode(reader: ArgumentReader) -> ExchangeUnbind:
        return ExchangeUnbind(
            reader.short(),
            reader.shortstr(),
            reader.shortstr(),
            reader.shortstr(),
            reader.octet() & 1 != 0,
            reader.table(),
        )

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.ticket)
        writer.shortstr(self.destination)
        writer.shortstr(self.source)
        writer.shortstr(self.routing_key)
        writer.octet(self.no_wait)
        writer.table(self.arguments)


class ExchangeUnbindOk(Method):
    id: ClassVar[int] = constants.EXCHANGE_UNBIND_OK
    name: ClassVar[str] = "exchange.unbind-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> ExchangeUnbindOk:
        return ExchangeUnbindOk()
