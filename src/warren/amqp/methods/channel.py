"""Channel: opening, flow and closing; and access.request, which old clients send before they declare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from warren.amqp import constants
from warren.amqp.methods.base import Method
from warren.amqp.reader import ArgumentReader
from warren.amqp.writer import ArgumentWriter


@dataclass
class ChannelOpen(Method):
    id: ClassVar[int] = constants.CHANNEL_OPEN
    name: ClassVar[str] = "channel.open"

    out_of_band: str = ""

    @staticmethod
    def decode(reader: ArgumentReader) -> ChannelOpen:
        return ChannelOpen(reader.shortstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.out_of_band)


@dataclass
class ChannelOpenOk(Method):
    id: ClassVar[int] = constants.CHANNEL_OPEN_OK
    name: ClassVar[str] = "channel.open-ok"

    channel_id: bytes = b""

    @staticmethod
    def decode(reader: ArgumentReader) -> ChannelOpenOk:
        return ChannelOpenOk(reader.longstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.longstr(self.channel_id)


@dataclass
class ChannelFlow(Method):
    id: ClassVar[int] = constants.CHANNEL_FLOW
    name: ClassVar[str] = "channel.flow"

    active: bool = True

    @staticmethod
    def decode(reader: ArgumentReader) -> ChannelFlow:
        return ChannelFlow(reader.octet() & 1 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.octet(self.active)


@dataclass
class ChannelFlowOk(Method):
    id: ClassVar[int] = constants.CHANNEL_FLOW_OK
    name: ClassVar[str] = "channel.flow-ok"

    active: bool = True

    @staticmethod
    def decode(reader: ArgumentReader) -> ChannelFlowOk:
        return ChannelFlowOk(reader.octet() & 1 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.octet(self.active)


@dataclass
class ChannelClose(Method):
    id: ClassVar[int] = constants.CHANNEL_CLOSE
    name: ClassVar[str] = "channel.close"

    reply_code: int = 0
    reply_text: str = ""
    class_id: int = 0
    method_id: int = 0

    @staticmethod
    def decode(reader: ArgumentReader) -> ChannelClose:
        return ChannelClose(reader.short(), reader.shortstr(), reader.short(), reader.short())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.reply_code)
        writer.shortstr(self.reply_text)
        writer.short(self.class_id)
        writer.short(self.method_id)


@dataclass
class ChannelCloseOk(Method):
    id: ClassVar[int] = constants.CHANNEL_CLOSE_OK
    name: ClassVar[str] = "channel.close-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> ChannelCloseOk:
        return ChannelCloseOk()

    def encode(self, writer: ArgumentWriter) -> None:
        """Has no arguments."""


@dataclass
class AccessRequest(Method):
    id: ClassVar[int] = constants.ACCESS_REQUEST
    name: ClassVar[str] = "access.request"

    realm: str = "/data"
    exclusive: bool = False
    passive: bool = True
    active: bool = True
    write: bool = True
    read: bool = True

    @staticmethod
    def decode(reader: ArgumentReader) -> AccessRequest:
        realm = reader.shortstr()
        bits = reader.octet()
        return AccessRequest(realm, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0, bits & 8 != 0, bits & 16 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.realm)
        writer.octet(self.exclusive | self.passive << 1 | self.active << 2 | self.write << 3 | self.read << 4)


@dataclass
class AccessRequestOk(Method):
    id: ClassVar[int] = constants.ACCESS_REQUEST_OK
    name: ClassVar[str] = "access.request-ok"

    ticket: int = 1

    @staticmethod
    def decode(reader: ArgumentReader) -> AccessRequestOk:
        return AccessRequestOk(reader.short())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.ticket)
