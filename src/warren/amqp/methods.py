"""Methods of AMQP 0-9-1, one class each. Generated: edit the table in tools/amqp_methods.py, then run `make methods`.

A method may be changed in place, and knows how its arguments lie on the wire.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from mypy_extensions import i64

from warren.amqp import constants
from warren.amqp.fields import Table
from warren.amqp.method import Method as Method
from warren.amqp.method import Names
from warren.amqp.method import encode_method as encode_method
from warren.amqp.reader import ArgumentReader
from warren.amqp.writer import ArgumentWriter
from warren.errors import CommandInvalid


class ConnectionStart(Method):
    id: ClassVar[int] = constants.CONNECTION_START
    name: ClassVar[str] = "connection.start"
    fields: ClassVar[Names] = ("version_major", "version_minor", "server_properties", "mechanisms", "locales")

    def __init__(
        self,
        version_major: int = 0,
        version_minor: int = 9,
        server_properties: Table | None = None,
        mechanisms: bytes = b"PLAIN",
        locales: bytes = b"en_US",
    ) -> None:
        self.version_major = version_major
        self.version_minor = version_minor
        self.server_properties: Table = {} if server_properties is None else server_properties
        self.mechanisms = mechanisms
        self.locales = locales

    @classmethod
    def decode(cls, reader: ArgumentReader) -> ConnectionStart:
        return ConnectionStart(reader.octet(), reader.octet(), reader.table(), reader.longstr(), reader.longstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.octet(self.version_major)
        writer.octet(self.version_minor)
        writer.table(self.server_properties)
        writer.longstr(self.mechanisms)
        writer.longstr(self.locales)


class ConnectionStartOk(Method):
    id: ClassVar[int] = constants.CONNECTION_START_OK
    name: ClassVar[str] = "connection.start-ok"
    fields: ClassVar[Names] = ("client_properties", "mechanism", "response", "locale")

    def __init__(
        self,
        client_properties: Table | None = None,
        mechanism: str = "PLAIN",
        response: bytes = b"",
        locale: str = "en_US",
    ) -> None:
        self.client_properties: Table = {} if client_properties is None else client_properties
        self.mechanism = mechanism
        self.response = response
        self.locale = locale

    @classmethod
    def decode(cls, reader: ArgumentReader) -> ConnectionStartOk:
        return ConnectionStartOk(reader.table(), reader.shortstr(), reader.longstr(), reader.shortstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.table(self.client_properties)
        writer.shortstr(self.mechanism)
        writer.longstr(self.response)
        writer.shortstr(self.locale)


class ConnectionSecure(Method):
    id: ClassVar[int] = constants.CONNECTION_SECURE
    name: ClassVar[str] = "connection.secure"
    fields: ClassVar[Names] = ("challenge",)

    def __init__(self, challenge: bytes = b"") -> None:
        self.challenge = challenge

    @classmethod
    def decode(cls, reader: ArgumentReader) -> ConnectionSecure:
        return ConnectionSecure(reader.longstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.longstr(self.challenge)


class ConnectionSecureOk(Method):
    id: ClassVar[int] = constants.CONNECTION_SECURE_OK
    name: ClassVar[str] = "connection.secure-ok"
    fields: ClassVar[Names] = ("response",)

    def __init__(self, response: bytes = b"") -> None:
        self.response = response

    @classmethod
    def decode(cls, reader: ArgumentReader) -> ConnectionSecureOk:
        return ConnectionSecureOk(reader.longstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.longstr(self.response)


class ConnectionTune(Method):
    id: ClassVar[int] = constants.CONNECTION_TUNE
    name: ClassVar[str] = "connection.tune"
    fields: ClassVar[Names] = ("channel_max", "frame_max", "heartbeat")

    def __init__(self, channel_max: int = 0, frame_max: int = 0, heartbeat: int = 0) -> None:
        self.channel_max = channel_max
        self.frame_max = frame_max
        self.heartbeat = heartbeat

    @classmethod
    def decode(cls, reader: ArgumentReader) -> ConnectionTune:
        return ConnectionTune(reader.short(), reader.long(), reader.short())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.channel_max)
        writer.long(self.frame_max)
        writer.short(self.heartbeat)


class ConnectionTuneOk(Method):
    id: ClassVar[int] = constants.CONNECTION_TUNE_OK
    name: ClassVar[str] = "connection.tune-ok"
    fields: ClassVar[Names] = ("channel_max", "frame_max", "heartbeat")

    def __init__(self, channel_max: int = 0, frame_max: int = 0, heartbeat: int = 0) -> None:
        self.channel_max = channel_max
        self.frame_max = frame_max
        self.heartbeat = heartbeat

    @classmethod
    def decode(cls, reader: ArgumentReader) -> ConnectionTuneOk:
        return ConnectionTuneOk(reader.short(), reader.long(), reader.short())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.channel_max)
        writer.long(self.frame_max)
        writer.short(self.heartbeat)


class ConnectionOpen(Method):
    id: ClassVar[int] = constants.CONNECTION_OPEN
    name: ClassVar[str] = "connection.open"
    fields: ClassVar[Names] = ("virtual_host", "capabilities", "insist")

    def __init__(self, virtual_host: str = "/", capabilities: str = "", insist: bool = False) -> None:
        self.virtual_host = virtual_host
        self.capabilities = capabilities
        self.insist = insist

    @classmethod
    def decode(cls, reader: ArgumentReader) -> ConnectionOpen:
        return ConnectionOpen(reader.shortstr(), reader.shortstr(), reader.octet() & 1 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.virtual_host)
        writer.shortstr(self.capabilities)
        writer.octet(self.insist)


class ConnectionOpenOk(Method):
    id: ClassVar[int] = constants.CONNECTION_OPEN_OK
    name: ClassVar[str] = "connection.open-ok"
    fields: ClassVar[Names] = ("known_hosts",)

    def __init__(self, known_hosts: str = "") -> None:
        self.known_hosts = known_hosts

    @classmethod
    def decode(cls, reader: ArgumentReader) -> ConnectionOpenOk:
        return ConnectionOpenOk(reader.shortstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.known_hosts)


class ConnectionClose(Method):
    id: ClassVar[int] = constants.CONNECTION_CLOSE
    name: ClassVar[str] = "connection.close"
    fields: ClassVar[Names] = ("reply_code", "reply_text", "class_id", "method_id")

    def __init__(self, reply_code: int = 0, reply_text: str = "", class_id: int = 0, method_id: int = 0) -> None:
        self.reply_code = reply_code
        self.reply_text = reply_text
        self.class_id = class_id
        self.method_id = method_id

    @classmethod
    def decode(cls, reader: ArgumentReader) -> ConnectionClose:
        return ConnectionClose(reader.short(), reader.shortstr(), reader.short(), reader.short())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.reply_code)
        writer.shortstr(self.reply_text)
        writer.short(self.class_id)
        writer.short(self.method_id)


class ConnectionCloseOk(Method):
    id: ClassVar[int] = constants.CONNECTION_CLOSE_OK
    name: ClassVar[str] = "connection.close-ok"


class ConnectionBlocked(Method):
    id: ClassVar[int] = constants.CONNECTION_BLOCKED
    name: ClassVar[str] = "connection.blocked"
    fields: ClassVar[Names] = ("reason",)

    def __init__(self, reason: str = "") -> None:
        self.reason = reason

    @classmethod
    def decode(cls, reader: ArgumentReader) -> ConnectionBlocked:
        return ConnectionBlocked(reader.shortstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.reason)


class ConnectionUnblocked(Method):
    id: ClassVar[int] = constants.CONNECTION_UNBLOCKED
    name: ClassVar[str] = "connection.unblocked"


class ConnectionUpdateSecret(Method):
    id: ClassVar[int] = constants.CONNECTION_UPDATE_SECRET
    name: ClassVar[str] = "connection.update-secret"
    fields: ClassVar[Names] = ("new_secret", "reason")

    def __init__(self, new_secret: bytes = b"", reason: str = "") -> None:
        self.new_secret = new_secret
        self.reason = reason

    @classmethod
    def decode(cls, reader: ArgumentReader) -> ConnectionUpdateSecret:
        return ConnectionUpdateSecret(reader.longstr(), reader.shortstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.longstr(self.new_secret)
        writer.shortstr(self.reason)


class ConnectionUpdateSecretOk(Method):
    id: ClassVar[int] = constants.CONNECTION_UPDATE_SECRET_OK
    name: ClassVar[str] = "connection.update-secret-ok"


class ChannelOpen(Method):
    id: ClassVar[int] = constants.CHANNEL_OPEN
    name: ClassVar[str] = "channel.open"
    fields: ClassVar[Names] = ("out_of_band",)

    def __init__(self, out_of_band: str = "") -> None:
        self.out_of_band = out_of_band

    @classmethod
    def decode(cls, reader: ArgumentReader) -> ChannelOpen:
        return ChannelOpen(reader.shortstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.out_of_band)


class ChannelOpenOk(Method):
    id: ClassVar[int] = constants.CHANNEL_OPEN_OK
    name: ClassVar[str] = "channel.open-ok"
    fields: ClassVar[Names] = ("channel_id",)

    def __init__(self, channel_id: bytes = b"") -> None:
        self.channel_id = channel_id

    @classmethod
    def decode(cls, reader: ArgumentReader) -> ChannelOpenOk:
        return ChannelOpenOk(reader.longstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.longstr(self.channel_id)


class ChannelFlow(Method):
    id: ClassVar[int] = constants.CHANNEL_FLOW
    name: ClassVar[str] = "channel.flow"
    fields: ClassVar[Names] = ("active",)

    def __init__(self, active: bool = True) -> None:
        self.active = active

    @classmethod
    def decode(cls, reader: ArgumentReader) -> ChannelFlow:
        return ChannelFlow(reader.octet() & 1 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.octet(self.active)


class ChannelFlowOk(Method):
    id: ClassVar[int] = constants.CHANNEL_FLOW_OK
    name: ClassVar[str] = "channel.flow-ok"
    fields: ClassVar[Names] = ("active",)

    def __init__(self, active: bool = True) -> None:
        self.active = active

    @classmethod
    def decode(cls, reader: ArgumentReader) -> ChannelFlowOk:
        return ChannelFlowOk(reader.octet() & 1 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.octet(self.active)


class ChannelClose(Method):
    id: ClassVar[int] = constants.CHANNEL_CLOSE
    name: ClassVar[str] = "channel.close"
    fields: ClassVar[Names] = ("reply_code", "reply_text", "class_id", "method_id")

    def __init__(self, reply_code: int = 0, reply_text: str = "", class_id: int = 0, method_id: int = 0) -> None:
        self.reply_code = reply_code
        self.reply_text = reply_text
        self.class_id = class_id
        self.method_id = method_id

    @classmethod
    def decode(cls, reader: ArgumentReader) -> ChannelClose:
        return ChannelClose(reader.short(), reader.shortstr(), reader.short(), reader.short())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.reply_code)
        writer.shortstr(self.reply_text)
        writer.short(self.class_id)
        writer.short(self.method_id)


class ChannelCloseOk(Method):
    id: ClassVar[int] = constants.CHANNEL_CLOSE_OK
    name: ClassVar[str] = "channel.close-ok"


class AccessRequest(Method):
    id: ClassVar[int] = constants.ACCESS_REQUEST
    name: ClassVar[str] = "access.request"
    fields: ClassVar[Names] = ("realm", "exclusive", "passive", "active", "write", "read")

    def __init__(
        self,
        realm: str = "/data",
        exclusive: bool = False,
        passive: bool = True,
        active: bool = True,
        write: bool = True,
        read: bool = True,
    ) -> None:
        self.realm = realm
        self.exclusive = exclusive
        self.passive = passive
        self.active = active
        self.write = write
        self.read = read

    @classmethod
    def decode(cls, reader: ArgumentReader) -> AccessRequest:
        realm = reader.shortstr()
        bits = reader.octet()
        return AccessRequest(realm, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0, bits & 8 != 0, bits & 16 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.realm)
        writer.octet(self.exclusive | self.passive << 1 | self.active << 2 | self.write << 3 | self.read << 4)


class AccessRequestOk(Method):
    id: ClassVar[int] = constants.ACCESS_REQUEST_OK
    name: ClassVar[str] = "access.request-ok"
    fields: ClassVar[Names] = ("ticket",)

    def __init__(self, ticket: int = 1) -> None:
        self.ticket = ticket

    @classmethod
    def decode(cls, reader: ArgumentReader) -> AccessRequestOk:
        return AccessRequestOk(reader.short())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.ticket)


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

    @classmethod
    def decode(cls, reader: ArgumentReader) -> ExchangeDeclare:
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


class ExchangeDelete(Method):
    id: ClassVar[int] = constants.EXCHANGE_DELETE
    name: ClassVar[str] = "exchange.delete"
    fields: ClassVar[Names] = ("ticket", "exchange", "if_unused", "no_wait")

    def __init__(self, ticket: int = 0, exchange: str = "", if_unused: bool = False, no_wait: bool = False) -> None:
        self.ticket = ticket
        self.exchange = exchange
        self.if_unused = if_unused
        self.no_wait = no_wait

    @classmethod
    def decode(cls, reader: ArgumentReader) -> ExchangeDelete:
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

    @classmethod
    def decode(cls, reader: ArgumentReader) -> ExchangeBind:
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

    @classmethod
    def decode(cls, reader: ArgumentReader) -> ExchangeUnbind:
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

    @classmethod
    def decode(cls, reader: ArgumentReader) -> QueueDeclare:
        ticket = reader.short()
        queue = reader.shortstr()
        bits = reader.octet()
        return QueueDeclare(
            ticket, queue, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0, bits & 8 != 0, bits & 16 != 0, reader.table()
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

    @classmethod
    def decode(cls, reader: ArgumentReader) -> QueueDeclareOk:
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

    @classmethod
    def decode(cls, reader: ArgumentReader) -> QueueBind:
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


class QueuePurge(Method):
    id: ClassVar[int] = constants.QUEUE_PURGE
    name: ClassVar[str] = "queue.purge"
    fields: ClassVar[Names] = ("ticket", "queue", "no_wait")

    def __init__(self, ticket: int = 0, queue: str = "", no_wait: bool = False) -> None:
        self.ticket = ticket
        self.queue = queue
        self.no_wait = no_wait

    @classmethod
    def decode(cls, reader: ArgumentReader) -> QueuePurge:
        return QueuePurge(reader.short(), reader.shortstr(), reader.octet() & 1 != 0)

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

    @classmethod
    def decode(cls, reader: ArgumentReader) -> QueuePurgeOk:
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

    @classmethod
    def decode(cls, reader: ArgumentReader) -> QueueDelete:
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

    @classmethod
    def decode(cls, reader: ArgumentReader) -> QueueDeleteOk:
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

    @classmethod
    def decode(cls, reader: ArgumentReader) -> QueueUnbind:
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


class BasicQos(Method):
    id: ClassVar[int] = constants.BASIC_QOS
    name: ClassVar[str] = "basic.qos"
    fields: ClassVar[Names] = ("prefetch_size", "prefetch_count", "global_")

    def __init__(self, prefetch_size: int = 0, prefetch_count: int = 0, global_: bool = False) -> None:
        self.prefetch_size = prefetch_size
        self.prefetch_count = prefetch_count
        self.global_ = global_

    @classmethod
    def decode(cls, reader: ArgumentReader) -> BasicQos:
        return BasicQos(reader.long(), reader.short(), reader.octet() & 1 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.long(self.prefetch_size)
        writer.short(self.prefetch_count)
        writer.octet(self.global_)


class BasicQosOk(Method):
    id: ClassVar[int] = constants.BASIC_QOS_OK
    name: ClassVar[str] = "basic.qos-ok"


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

    @classmethod
    def decode(cls, reader: ArgumentReader) -> BasicConsume:
        ticket = reader.short()
        queue = reader.shortstr()
        consumer_tag = reader.shortstr()
        bits = reader.octet()
        return BasicConsume(
            ticket, queue, consumer_tag, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0, bits & 8 != 0, reader.table()
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

    @classmethod
    def decode(cls, reader: ArgumentReader) -> BasicConsumeOk:
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

    @classmethod
    def decode(cls, reader: ArgumentReader) -> BasicCancel:
        return BasicCancel(reader.shortstr(), reader.octet() & 1 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.consumer_tag)
        writer.octet(self.no_wait)


class BasicCancelOk(Method):
    id: ClassVar[int] = constants.BASIC_CANCEL_OK
    name: ClassVar[str] = "basic.cancel-ok"
    fields: ClassVar[Names] = ("consumer_tag",)

    def __init__(self, consumer_tag: str = "") -> None:
        self.consumer_tag = consumer_tag

    @classmethod
    def decode(cls, reader: ArgumentReader) -> BasicCancelOk:
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

    @classmethod
    def decode(cls, reader: ArgumentReader) -> BasicPublish:
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

    @classmethod
    def decode(cls, reader: ArgumentReader) -> BasicReturn:
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

    @classmethod
    def decode(cls, reader: ArgumentReader) -> BasicDeliver:
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

    @classmethod
    def decode(cls, reader: ArgumentReader) -> BasicGet:
        return BasicGet(reader.short(), reader.shortstr(), reader.octet() & 1 != 0)

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

    @classmethod
    def decode(cls, reader: ArgumentReader) -> BasicGetOk:
        return BasicGetOk(
            reader.longlong(), reader.octet() & 1 != 0, reader.any_shortstr(), reader.any_shortstr(), reader.long()
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

    @classmethod
    def decode(cls, reader: ArgumentReader) -> BasicGetEmpty:
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

    @classmethod
    def decode(cls, reader: ArgumentReader) -> BasicAck:
        return BasicAck(reader.longlong(), reader.octet() & 1 != 0)

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

    @classmethod
    def decode(cls, reader: ArgumentReader) -> BasicReject:
        return BasicReject(reader.longlong(), reader.octet() & 1 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.longlong(self.delivery_tag)
        writer.octet(self.requeue)


class BasicRecoverAsync(Method):
    id: ClassVar[int] = constants.BASIC_RECOVER_ASYNC
    name: ClassVar[str] = "basic.recover-async"
    fields: ClassVar[Names] = ("requeue",)

    def __init__(self, requeue: bool = False) -> None:
        self.requeue = requeue

    @classmethod
    def decode(cls, reader: ArgumentReader) -> BasicRecoverAsync:
        return BasicRecoverAsync(reader.octet() & 1 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.octet(self.requeue)


class BasicRecover(Method):
    id: ClassVar[int] = constants.BASIC_RECOVER
    name: ClassVar[str] = "basic.recover"
    fields: ClassVar[Names] = ("requeue",)

    def __init__(self, requeue: bool = False) -> None:
        self.requeue = requeue

    @classmethod
    def decode(cls, reader: ArgumentReader) -> BasicRecover:
        return BasicRecover(reader.octet() & 1 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.octet(self.requeue)


class BasicRecoverOk(Method):
    id: ClassVar[int] = constants.BASIC_RECOVER_OK
    name: ClassVar[str] = "basic.recover-ok"


class BasicNack(Method):
    id: ClassVar[int] = constants.BASIC_NACK
    name: ClassVar[str] = "basic.nack"
    fields: ClassVar[Names] = ("delivery_tag", "multiple", "requeue")

    def __init__(self, delivery_tag: int = 0, multiple: bool = False, requeue: bool = True) -> None:
        self.delivery_tag = delivery_tag
        self.multiple = multiple
        self.requeue = requeue

    @classmethod
    def decode(cls, reader: ArgumentReader) -> BasicNack:
        delivery_tag = reader.longlong()
        bits = reader.octet()
        return BasicNack(delivery_tag, bits & 1 != 0, bits & 2 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.longlong(self.delivery_tag)
        writer.octet(self.multiple | self.requeue << 1)


class ConfirmSelect(Method):
    id: ClassVar[int] = constants.CONFIRM_SELECT
    name: ClassVar[str] = "confirm.select"
    fields: ClassVar[Names] = ("no_wait",)

    def __init__(self, no_wait: bool = False) -> None:
        self.no_wait = no_wait

    @classmethod
    def decode(cls, reader: ArgumentReader) -> ConfirmSelect:
        return ConfirmSelect(reader.octet() & 1 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.octet(self.no_wait)


class ConfirmSelectOk(Method):
    id: ClassVar[int] = constants.CONFIRM_SELECT_OK
    name: ClassVar[str] = "confirm.select-ok"


class TxSelect(Method):
    id: ClassVar[int] = constants.TX_SELECT
    name: ClassVar[str] = "tx.select"


class TxSelectOk(Method):
    id: ClassVar[int] = constants.TX_SELECT_OK
    name: ClassVar[str] = "tx.select-ok"


class TxCommit(Method):
    id: ClassVar[int] = constants.TX_COMMIT
    name: ClassVar[str] = "tx.commit"


class TxCommitOk(Method):
    id: ClassVar[int] = constants.TX_COMMIT_OK
    name: ClassVar[str] = "tx.commit-ok"


class TxRollback(Method):
    id: ClassVar[int] = constants.TX_ROLLBACK
    name: ClassVar[str] = "tx.rollback"


class TxRollbackOk(Method):
    id: ClassVar[int] = constants.TX_ROLLBACK_OK
    name: ClassVar[str] = "tx.rollback-ok"


# All of the above, in the order of the spec.
METHODS: Final[list[type[Method]]] = Method.__subclasses__()
_DECODERS: Final[dict[int, Callable[[ArgumentReader], Method]]] = {method.id: method.decode for method in METHODS}
_NAMES: Final[dict[int, str]] = {method.id: method.name for method in METHODS}


def decode_method(method_id: int, data: bytes, start: i64, end: i64) -> Method:
    """The method whose arguments fill `data` from start to end exactly."""
    reader = ArgumentReader(data, start, end)
    method = _read(method_id, reader)
    reader.finish()
    return method


def _read(method_id: int, reader: ArgumentReader) -> Method:
    # What comes by the million and is not taken apart by the reader skips the table.
    if method_id == constants.BASIC_GET:
        return BasicGet.decode(reader)
    decode = _DECODERS.get(method_id)
    if decode is None:
        raise CommandInvalid("unimplemented method", method_id)
    return decode(reader)


def method_name(method_id: int) -> str:
    """As the spec prints it; "none" for an id that names nothing, such as the 0 of an error outside any method."""
    return _NAMES.get(method_id, "none")
