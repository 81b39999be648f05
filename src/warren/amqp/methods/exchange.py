"""Exchange: declare, delete, and the bindings between exchanges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from warren.amqp import constants
from warren.amqp.fields import Table
from warren.amqp.methods.base import Method
from warren.amqp.reader import ArgumentReader
from warren.amqp.writer import ArgumentWriter


@dataclass
class ExchangeDeclare(Method):
    id: ClassVar[int] = constants.EXCHANGE_DECLARE
    name: ClassVar[str] = "exchange.declare"

    ticket: int = 0
    exchange: str = ""
    type: str = "direct"
    passive: bool = False
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    no_wait: bool = False
    arguments: Table = field(default_factory=dict)

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


@dataclass
class ExchangeDeclareOk(Method):
    id: ClassVar[int] = constants.EXCHANGE_DECLARE_OK
    name: ClassVar[str] = "exchange.declare-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> ExchangeDeclareOk:
        return ExchangeDeclareOk()

    def encode(self, writer: ArgumentWriter) -> None:
        """Has no arguments."""


@dataclass
class ExchangeDelete(Method):
    id: ClassVar[int] = constants.EXCHANGE_DELETE
    name: ClassVar[str] = "exchange.delete"

    ticket: int = 0
    exchange: str = ""
    if_unused: bool = False
    no_wait: bool = False

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


@dataclass
class ExchangeDeleteOk(Method):
    id: ClassVar[int] = constants.EXCHANGE_DELETE_OK
    name: ClassVar[str] = "exchange.delete-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> ExchangeDeleteOk:
        return ExchangeDeleteOk()

    def encode(self, writer: ArgumentWriter) -> None:
        """Has no arguments."""


@dataclass
class ExchangeBind(Method):
    id: ClassVar[int] = constants.EXCHANGE_BIND
    name: ClassVar[str] = "exchange.bind"

    ticket: int = 0
    destination: str = ""
    source: str = ""
    routing_key: str = ""
    no_wait: bool = False
    arguments: Table = field(default_factory=dict)

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


@dataclass
class ExchangeBindOk(Method):
    id: ClassVar[int] = constants.EXCHANGE_BIND_OK
    name: ClassVar[str] = "exchange.bind-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> ExchangeBindOk:
        return ExchangeBindOk()

    def encode(self, writer: ArgumentWriter) -> None:
        """Has no arguments."""


@dataclass
class ExchangeUnbind(Method):
    id: ClassVar[int] = constants.EXCHANGE_UNBIND
    name: ClassVar[str] = "exchange.unbind"

    ticket: int = 0
    destination: str = ""
    source: str = ""
    routing_key: str = ""
    no_wait: bool = False
    arguments: Table = field(default_factory=dict)

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


@dataclass
class ExchangeUnbindOk(Method):
    id: ClassVar[int] = constants.EXCHANGE_UNBIND_OK
    name: ClassVar[str] = "exchange.unbind-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> ExchangeUnbindOk:
        return ExchangeUnbindOk()

    def encode(self, writer: ArgumentWriter) -> None:
        """Has no arguments."""
