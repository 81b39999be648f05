"""Basic: publishing, consuming and settling."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from warren.amqp import constants
from warren.amqp.fields import Table
from warren.amqp.methods.base import Method
from warren.amqp.reader import ArgumentReader
from warren.amqp.writer import ArgumentWriter


@dataclass
class BasicQos(Method):
    id: ClassVar[int] = constants.BASIC_QOS
    name: ClassVar[str] = "basic.qos"

    prefetch_size: int = 0
    prefetch_count: int = 0
    global_: bool = False

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicQos:
        return BasicQos(
            reader.long(),
            reader.short(),
            reader.octet() & 1 != 0,
        )

    def encode(self, writer: ArgumentWriter) -> None:
        writer.long(self.prefetch_size)
        writer.short(self.prefetch_count)
        writer.octet(self.global_)


@dataclass
class BasicQosOk(Method):
    id: ClassVar[int] = constants.BASIC_QOS_OK
    name: ClassVar[str] = "basic.qos-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicQosOk:
        return BasicQosOk()

    def encode(self, writer: ArgumentWriter) -> None:
        """Has no arguments."""


@dataclass
class BasicConsume(Method):
    id: ClassVar[int] = constants.BASIC_CONSUME
    name: ClassVar[str] = "basic.consume"

    ticket: int = 0
    queue: str = ""
    consumer_tag: str = ""
    no_local: bool = False
    no_ack: bool = False
    exclusive: bool = False
    no_wait: bool = False
    arguments: Table = field(default_factory=dict)

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicConsume:
        ticket = reader.short()
        queue = reader.shortstr()
        consumer_tag = reader.shortstr()
        bits = reader.octet()
        return BasicConsume(
            ticket,
            queue,
            consumer_tag,
            bits & 1 != 0,
            bits & 2 != 0,
            bits & 4 != 0,
            bits & 8 != 0,
            reader.table(),
        )

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.ticket)
        writer.shortstr(self.queue)
        writer.shortstr(self.consumer_tag)
        writer.octet(self.no_local | self.no_ack << 1 | self.exclusive << 2 | self.no_wait << 3)
        writer.table(self.arguments)


@dataclass
class BasicConsumeOk(Method):
    id: ClassVar[int] = constants.BASIC_CONSUME_OK
    name: ClassVar[str] = "basic.consume-ok"

    consumer_tag: str = ""

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicConsumeOk:
        return BasicConsumeOk(reader.shortstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.consumer_tag)


@dataclass
class BasicCancel(Method):
    id: ClassVar[int] = constants.BASIC_CANCEL
    name: ClassVar[str] = "basic.cancel"

    consumer_tag: str = ""
    no_wait: bool = False

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicCancel:
        return BasicCancel(
            reader.shortstr(),
            reader.octet() & 1 != 0,
        )

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.consumer_tag)
        writer.octet(self.no_wait)


@dataclass
class BasicCancelOk(Method):
    id: ClassVar[int] = constants.BASIC_CANCEL_OK
    name: ClassVar[str] = "basic.cancel-ok"

    consumer_tag: str = ""

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicCancelOk:
        return BasicCancelOk(reader.shortstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.consumer_tag)


@dataclass
class BasicPublish(Method):
    id: ClassVar[int] = constants.BASIC_PUBLISH
    name: ClassVar[str] = "basic.publish"

    ticket: int = 0
    exchange: str = ""
    routing_key: str = ""
    mandatory: bool = False
    immediate: bool = False

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicPublish:
        ticket = reader.short()
        exchange = reader.shortstr()
        routing_key = reader.shortstr()
        bits = reader.octet()
        return BasicPublish(ticket, exchange, routing_key, bits & 1 != 0, bits & 2 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.ticket)
        writer.shortstr(self.exchange)
        writer.shortstr(self.routing_key)
        writer.octet(self.mandatory | self.immediate << 1)


@dataclass
class BasicReturn(Method):
    id: ClassVar[int] = constants.BASIC_RETURN
    name: ClassVar[str] = "basic.return"

    reply_code: int = 0
    reply_text: str = ""
    exchange: str = ""
    routing_key: str = ""

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicReturn:
        return BasicReturn(reader.short(), reader.shortstr(), reader.shortstr(), reader.shortstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.reply_code)
        writer.shortstr(self.reply_text)
        writer.shortstr(self.exchange)
        writer.shortstr(self.routing_key)


@dataclass
class BasicDeliver(Method):
    id: ClassVar[int] = constants.BASIC_DELIVER
    name: ClassVar[str] = "basic.deliver"

    consumer_tag: str = ""
    delivery_tag: int = 0
    redelivered: bool = False
    exchange: str = ""
    routing_key: str = ""

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicDeliver:
        return BasicDeliver(
            reader.shortstr(),
            reader.longlong(),
            reader.octet() & 1 != 0,
            reader.shortstr(),
            reader.shortstr(),
        )

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.consumer_tag)
        writer.longlong(self.delivery_tag)
        writer.octet(self.redelivered)
        writer.shortstr(self.exchange)
        writer.shortstr(self.routing_key)


@dataclass
class BasicGet(Method):
    id: ClassVar[int] = constants.BASIC_GET
    name: ClassVar[str] = "basic.get"

    ticket: int = 0
    queue: str = ""
    no_ack: bool = False

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicGet:
        return BasicGet(
            reader.short(),
            reader.shortstr(),
            reader.octet() & 1 != 0,
        )

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.ticket)
        writer.shortstr(self.queue)
        writer.octet(self.no_ack)


@dataclass
class BasicGetOk(Method):
    id: ClassVar[int] = constants.BASIC_GET_OK
    name: ClassVar[str] = "basic.get-ok"

    delivery_tag: int = 0
    redelivered: bool = False
    exchange: str = ""
    routing_key: str = ""
    message_count: int = 0

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicGetOk:
        return BasicGetOk(
            reader.longlong(),
            reader.octet() & 1 != 0,
            reader.shortstr(),
            reader.shortstr(),
            reader.long(),
        )

    def encode(self, writer: ArgumentWriter) -> None:
        writer.longlong(self.delivery_tag)
        writer.octet(self.redelivered)
        writer.shortstr(self.exchange)
        writer.shortstr(self.routing_key)
        writer.long(self.message_count)


@dataclass
class BasicGetEmpty(Method):
    id: ClassVar[int] = constants.BASIC_GET_EMPTY
    name: ClassVar[str] = "basic.get-empty"

    cluster_id: str = ""

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicGetEmpty:
        return BasicGetEmpty(reader.shortstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.cluster_id)


@dataclass
class BasicAck(Method):
    id: ClassVar[int] = constants.BASIC_ACK
    name: ClassVar[str] = "basic.ack"

    delivery_tag: int = 0
    multiple: bool = False

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicAck:
        return BasicAck(
            reader.longlong(),
            reader.octet() & 1 != 0,
        )

    def encode(self, writer: ArgumentWriter) -> None:
        writer.longlong(self.delivery_tag)
        writer.octet(self.multiple)


@dataclass
class BasicReject(Method):
    id: ClassVar[int] = constants.BASIC_REJECT
    name: ClassVar[str] = "basic.reject"

    delivery_tag: int = 0
    requeue: bool = True

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicReject:
        return BasicReject(
            reader.longlong(),
            reader.octet() & 1 != 0,
        )

    def encode(self, writer: ArgumentWriter) -> None:
        writer.longlong(self.delivery_tag)
        writer.octet(self.requeue)


@dataclass
class BasicRecoverAsync(Method):
    id: ClassVar[int] = constants.BASIC_RECOVER_ASYNC
    name: ClassVar[str] = "basic.recover-async"

    requeue: bool = False

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicRecoverAsync:
        return BasicRecoverAsync(reader.octet() & 1 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.octet(self.requeue)


@dataclass
class BasicRecover(Method):
    id: ClassVar[int] = constants.BASIC_RECOVER
    name: ClassVar[str] = "basic.recover"

    requeue: bool = False

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicRecover:
        return BasicRecover(reader.octet() & 1 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.octet(self.requeue)


@dataclass
class BasicRecoverOk(Method):
    id: ClassVar[int] = constants.BASIC_RECOVER_OK
    name: ClassVar[str] = "basic.recover-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicRecoverOk:
        return BasicRecoverOk()

    def encode(self, writer: ArgumentWriter) -> None:
        """Has no arguments."""


@dataclass
class BasicNack(Method):
    id: ClassVar[int] = constants.BASIC_NACK
    name: ClassVar[str] = "basic.nack"

    delivery_tag: int = 0
    multiple: bool = False
    requeue: bool = True

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicNack:
        delivery_tag = reader.longlong()
        bits = reader.octet()
        return BasicNack(delivery_tag, bits & 1 != 0, bits & 2 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.longlong(self.delivery_tag)
        writer.octet(self.multiple | self.requeue << 1)
