"""Basic: publishing, consuming and settling."""

from __future__ import annotations

from typing import ClassVar

from warren.amqp import constants
from warren.amqp.fields import Table
from warren.amqp.methods.base import Method, Names
from warren.amqp.reader import ArgumentReader
from warren.amqp.writer import ArgumentWriter


class BasicQos(Method):
    id: ClassVar[int] = constants.BASIC_QOS
    name: ClassVar[str] = "basic.qos"
    fields: ClassVar[Names] = ("prefetch_size", "prefetch_count", "global_")

    def __init__(self, prefetch_size: int = 0, prefetch_count: int = 0, global_: bool = False) -> None:
        self.prefetch_size = prefetch_size
        self.prefetch_count = prefetch_count
        self.global_ = global_

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


class BasicQosOk(Method):
    id: ClassVar[int] = constants.BASIC_QOS_OK
    name: ClassVar[str] = "basic.qos-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicQosOk:
        return BasicQosOk()


class BasicConsume(Method):
    id: ClassVar[int] = constants.BASIC_CONSUME
    name: ClassVar[str] = "basic.consume"
    fields: ClassVar[Names] = (
        "ticket",
        "queue",
        "consumer_tag",
        "no_local",
        "no_ack",
        "exclusive",
        "no_wait",
        "arguments",
    )

    def __init__(
        self,
        ticket: int = 0,
        queue: str = "",
        consumer_tag: str = "",
        no_local: bool = False,
        no_ack: bool = False,
        exclusive: bool = False,
        no_wait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.ticket = ticket
        self.queue = queue
        self.consumer_tag = consumer_tag
        self.no_local = no_local
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.no_wait = no_wait
        self.arguments: Table = {} if arguments is None else arguments

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


class BasicConsumeOk(Method):
    id: ClassVar[int] = constants.BASIC_CONSUME_OK
    name: ClassVar[str] = "basic.consume-ok"
    fields: ClassVar[Names] = ("consumer_tag",)

    def __init__(self, consumer_tag: str = "") -> None:
        self.consumer_tag = consumer_tag

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicConsumeOk:
        return BasicConsumeOk(reader.shortstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.consumer_tag)


class BasicCancel(Method):
    id: ClassVar[int] = constants.BASIC_CANCEL
    name: ClassVar[str] = "basic.cancel"
    fields: ClassVar[Names] = ("consumer_tag", "no_wait")

    def __init__(self, consumer_tag: str = "", no_wait: bool = False) -> None:
        self.consumer_tag = consumer_tag
        self.no_wait = no_wait

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicCancel:
        return BasicCancel(
            reader.shortstr(),
            reader.octet() & 1 != 0,
        )

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.consumer_tag)
        writer.octet(self.no_wait)


class BasicCancelOk(Method):
    id: ClassVar[int] = constants.BASIC_CANCEL_OK
    name: ClassVar[str] = "basic.cancel-ok"
    fields: ClassVar[Names] = ("consumer_tag",)

    def __init__(self, consumer_tag: str = "") -> None:
        self.consumer_tag = consumer_tag

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicCancelOk:
        return BasicCancelOk(reader.shortstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.consumer_tag)


class BasicPublish(Method):
    id: ClassVar[int] = constants.BASIC_PUBLISH
    name: ClassVar[str] = "basic.publish"
    fields: ClassVar[Names] = ("ticket", "exchange", "routing_key", "mandatory", "immediate")

    def __init__(
        self,
        ticket: int = 0,
        exchange: str = "",
        routing_key: str = "",
        mandatory: bool = False,
        immediate: bool = False,
    ) -> None:
        self.ticket = ticket
        self.exchange = exchange
        self.routing_key = routing_key
        self.mandatory = mandatory
        self.immediate = immediate

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicPublish:
        ticket = reader.short()
        exchange = reader.any_shortstr()
        routing_key = reader.any_shortstr()
        bits = reader.octet()
        return BasicPublish(ticket, exchange, routing_key, bits & 1 != 0, bits & 2 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.ticket)
        writer.shortstr(self.exchange)
        writer.shortstr(self.routing_key)
        writer.octet(self.mandatory | self.immediate << 1)


class BasicReturn(Method):
    id: ClassVar[int] = constants.BASIC_RETURN
    name: ClassVar[str] = "basic.return"
    fields: ClassVar[Names] = ("reply_code", "reply_text", "exchange", "routing_key")

    def __init__(self, reply_code: int = 0, reply_text: str = "", exchange: str = "", routing_key: str = "") -> None:
        self.reply_code = reply_code
        self.reply_text = reply_text
        self.exchange = exchange
        self.routing_key = routing_key

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicReturn:
        return BasicReturn(reader.short(), reader.any_shortstr(), reader.any_shortstr(), reader.any_shortstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.reply_code)
        writer.shortstr(self.reply_text)
        writer.shortstr(self.exchange)
        writer.shortstr(self.routing_key)


class BasicDeliver(Method):
    id: ClassVar[int] = constants.BASIC_DELIVER
    name: ClassVar[str] = "basic.deliver"
    fields: ClassVar[Names] = ("consumer_tag", "delivery_tag", "redelivered", "exchange", "routing_key")

    def __init__(
        self,
        consumer_tag: str = "",
        delivery_tag: int = 0,
        redelivered: bool = False,
        exchange: str = "",
        routing_key: str = "",
    ) -> None:
        self.consumer_tag = consumer_tag
        self.delivery_tag = delivery_tag
        self.redelivered = redelivered
        self.exchange = exchange
        self.routing_key = routing_key

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicDeliver:
        return BasicDeliver(
            reader.any_shortstr(),
            reader.longlong(),
            reader.octet() & 1 != 0,
            reader.any_shortstr(),
            reader.any_shortstr(),
        )

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.consumer_tag)
        writer.longlong(self.delivery_tag)
        writer.octet(self.redelivered)
        writer.shortstr(self.exchange)
        writer.shortstr(self.routing_key)


class BasicGet(Method):
    id: ClassVar[int] = constants.BASIC_GET
    name: ClassVar[str] = "basic.get"
    fields: ClassVar[Names] = ("ticket", "queue", "no_ack")

    def __init__(self, ticket: int = 0, queue: str = "", no_ack: bool = False) -> None:
        self.ticket = ticket
        self.queue = queue
        self.no_ack = no_ack

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


class BasicGetOk(Method):
    id: ClassVar[int] = constants.BASIC_GET_OK
    name: ClassVar[str] = "basic.get-ok"
    fields: ClassVar[Names] = ("delivery_tag", "redelivered", "exchange", "routing_key", "message_count")

    def __init__(
        self,
        delivery_tag: int = 0,
        redelivered: bool = False,
        exchange: str = "",
        routing_key: str = "",
        message_count: int = 0,
    ) -> None:
        self.delivery_tag = delivery_tag
        self.redelivered = redelivered
        self.exchange = exchange
        self.routing_key = routing_key
        self.message_count = message_count

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicGetOk:
        return BasicGetOk(
            reader.longlong(),
            reader.octet() & 1 != 0,
            reader.any_shortstr(),
            reader.any_shortstr(),
            reader.long(),
        )

    def encode(self, writer: ArgumentWriter) -> None:
        writer.longlong(self.delivery_tag)
        writer.octet(self.redelivered)
        writer.shortstr(self.exchange)
        writer.shortstr(self.routing_key)
        writer.long(self.message_count)


class BasicGetEmpty(Method):
    id: ClassVar[int] = constants.BASIC_GET_EMPTY
    name: ClassVar[str] = "basic.get-empty"
    fields: ClassVar[Names] = ("cluster_id",)

    def __init__(self, cluster_id: str = "") -> None:
        self.cluster_id = cluster_id

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicGetEmpty:
        return BasicGetEmpty(reader.shortstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.cluster_id)


class BasicAck(Method):
    id: ClassVar[int] = constants.BASIC_ACK
    name: ClassVar[str] = "basic.ack"
    fields: ClassVar[Names] = ("delivery_tag", "multiple")

    def __init__(self, delivery_tag: int = 0, multiple: bool = False) -> None:
        self.delivery_tag = delivery_tag
        self.multiple = multiple

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicAck:
        return BasicAck(
            reader.longlong(),
            reader.octet() & 1 != 0,
        )

    def encode(self, writer: ArgumentWriter) -> None:
        writer.longlong(self.delivery_tag)
        writer.octet(self.multiple)


class BasicReject(Method):
    id: ClassVar[int] = constants.BASIC_REJECT
    name: ClassVar[str] = "basic.reject"
    fields: ClassVar[Names] = ("delivery_tag", "requeue")

    def __init__(self, delivery_tag: int = 0, requeue: bool = True) -> None:
        self.delivery_tag = delivery_tag
        self.requeue = requeue

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicReject:
        return BasicReject(
            reader.longlong(),
            reader.octet() & 1 != 0,
        )

    def encode(self, writer: ArgumentWriter) -> None:
        writer.longlong(self.delivery_tag)
        writer.octet(self.requeue)


class BasicRecoverAsync(Method):
    id: ClassVar[int] = constants.BASIC_RECOVER_ASYNC
    name: ClassVar[str] = "basic.recover-async"
    fields: ClassVar[Names] = ("requeue",)

    def __init__(self, requeue: bool = False) -> None:
        self.requeue = requeue

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicRecoverAsync:
        return BasicRecoverAsync(reader.octet() & 1 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.octet(self.requeue)


class BasicRecover(Method):
    id: ClassVar[int] = constants.BASIC_RECOVER
    name: ClassVar[str] = "basic.recover"
    fields: ClassVar[Names] = ("requeue",)

    def __init__(self, requeue: bool = False) -> None:
        self.requeue = requeue

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicRecover:
        return BasicRecover(reader.octet() & 1 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.octet(self.requeue)


class BasicRecoverOk(Method):
    id: ClassVar[int] = constants.BASIC_RECOVER_OK
    name: ClassVar[str] = "basic.recover-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicRecoverOk:
        return BasicRecoverOk()


class BasicNack(Method):
    id: ClassVar[int] = constants.BASIC_NACK
    name: ClassVar[str] = "basic.nack"
    fields: ClassVar[Names] = ("delivery_tag", "multiple", "requeue")

    def __init__(self, delivery_tag: int = 0, multiple: bool = False, requeue: bool = True) -> None:
        self.delivery_tag = delivery_tag
        self.multiple = multiple
        self.requeue = requeue

    @staticmethod
    def decode(reader: ArgumentReader) -> BasicNack:
        delivery_tag = reader.longlong()
        bits = reader.octet()
        return BasicNack(delivery_tag, bits & 1 != 0, bits & 2 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.longlong(self.delivery_tag)
        writer.octet(self.multiple | self.requeue << 1)
