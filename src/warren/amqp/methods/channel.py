"""Channel: opening, flow and closing; and access.request, which old clients send before they declare."""

from __future__ import annotations

from typing import ClassVar

from warren.amqp import constants
from warren.amqp.methods.base import Method, Names
from warren.amqp.reader import ArgumentReader
from warren.amqp.writer import ArgumentWriter


class ChannelOpen(Method):
    id: ClassVar[int] = constants.CHANNEL_OPEN
    name: ClassVar[str] = "channel.open"
    fields: ClassVar[Names] = ("out_of_band",)

    def __init__(self, out_of_band: str = "") -> None:
        self.out_of_band = out_of_band

    @staticmethod
    def decode(reader: ArgumentReader) -> ChannelOpen:
        return ChannelOpen(reader.shortstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.out_of_band)


class ChannelOpenOk(Method):
    id: ClassVar[int] = constants.CHANNEL_OPEN_OK
    name: ClassVar[str] = "channel.open-ok"
    fields: ClassVar[Names] = ("channel_id",)

    def __init__(self, channel_id: bytes = b"") -> None:
        self.channel_id = channel_id

    @staticmethod
    def decode(reader: ArgumentReader) -> ChannelOpenOk:
        return ChannelOpenOk(reader.longstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.longstr(self.channel_id)


class ChannelFlow(Method):
    id: ClassVar[int] = constants.CHANNEL_FLOW
    name: ClassVar[str] = "channel.flow"
    fields: ClassVar[Names] = ("active",)

    def __init__(self, active: bool = True) -> None:
        self.active = active

    @staticmethod
    def decode(reader: ArgumentReader) -> ChannelFlow:
        return ChannelFlow(reader.octet() & 1 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.octet(self.active)


class ChannelFlowOk(Method):
    id: ClassVar[int] = constants.CHANNEL_FLOW_OK
    name: ClassVar[str] = "channel.flow-ok"
    fields: ClassVar[Names] = ("active",)

    def __init__(self, active: bool = True) -> None:
        self.active = active

    @staticmethod
    def decode(reader: ArgumentReader) -> ChannelFlowOk:
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

    @staticmethod
    def decode(reader: ArgumentReader) -> ChannelClose:
        return ChannelClose(reader.short(), reader.shortstr(), reader.short(), reader.short())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.reply_code)
        writer.shortstr(self.reply_text)
        writer.short(self.class_id)
        writer.short(self.method_id)


class ChannelCloseOk(Method):
    id: ClassVar[int] = constants.CHANNEL_CLOSE_OK
    name: ClassVar[str] = "channel.close-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> ChannelCloseOk:
        return ChannelCloseOk()


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

    @staticmethod
    def decode(reader: ArgumentReader) -> AccessRequest:
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

    @staticmethod
    def decode(reader: ArgumentReader) -> AccessRequestOk:
        return AccessRequestOk(reader.short())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.ticket)
