"""Connection: greeting, limits, opening and closing. These travel on channel 0 only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from warren.amqp import constants
from warren.amqp.fields import Table
from warren.amqp.methods.base import Method
from warren.amqp.reader import ArgumentReader
from warren.amqp.writer import ArgumentWriter


@dataclass
class ConnectionStart(Method):
    id: ClassVar[int] = constants.CONNECTION_START
    name: ClassVar[str] = "connection.start"

    version_major: int = 0
    version_minor: int = 9
    server_properties: Table = field(default_factory=dict)
    mechanisms: bytes = b"PLAIN"
    locales: bytes = b"en_US"

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionStart:
        return ConnectionStart(reader.octet(), reader.octet(), reader.table(), reader.longstr(), reader.longstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.octet(self.version_major)
        writer.octet(self.version_minor)
        writer.table(self.server_properties)
        writer.longstr(self.mechanisms)
        writer.longstr(self.locales)


@dataclass
class ConnectionStartOk(Method):
    id: ClassVar[int] = constants.CONNECTION_START_OK
    name: ClassVar[str] = "connection.start-ok"

    client_properties: Table = field(default_factory=dict)
    mechanism: str = "PLAIN"
    response: bytes = b""
    locale: str = "en_US"

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionStartOk:
        return ConnectionStartOk(reader.table(), reader.shortstr(), reader.longstr(), reader.shortstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.table(self.client_properties)
        writer.shortstr(self.mechanism)
        writer.longstr(self.response)
        writer.shortstr(self.locale)


@dataclass
class ConnectionSecure(Method):
    id: ClassVar[int] = constants.CONNECTION_SECURE
    name: ClassVar[str] = "connection.secure"

    challenge: bytes = b""

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionSecure:
        return ConnectionSecure(reader.longstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.longstr(self.challenge)


@dataclass
class ConnectionSecureOk(Method):
    id: ClassVar[int] = constants.CONNECTION_SECURE_OK
    name: ClassVar[str] = "connection.secure-ok"

    response: bytes = b""

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionSecureOk:
        return ConnectionSecureOk(reader.longstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.longstr(self.response)


@dataclass
class ConnectionTune(Method):
    id: ClassVar[int] = constants.CONNECTION_TUNE
    name: ClassVar[str] = "connection.tune"

    channel_max: int = 0
    frame_max: int = 0
    heartbeat: int = 0

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionTune:
        return ConnectionTune(reader.short(), reader.long(), reader.short())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.channel_max)
        writer.long(self.frame_max)
        writer.short(self.heartbeat)


@dataclass
class ConnectionTuneOk(Method):
    id: ClassVar[int] = constants.CONNECTION_TUNE_OK
    name: ClassVar[str] = "connection.tune-ok"

    channel_max: int = 0
    frame_max: int = 0
    heartbeat: int = 0

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionTuneOk:
        return ConnectionTuneOk(reader.short(), reader.long(), reader.short())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.channel_max)
        writer.long(self.frame_max)
        writer.short(self.heartbeat)


@dataclass
class ConnectionOpen(Method):
    id: ClassVar[int] = constants.CONNECTION_OPEN
    name: ClassVar[str] = "connection.open"

    virtual_host: str = "/"
    capabilities: str = ""
    insist: bool = False

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionOpen:
        return ConnectionOpen(
            reader.shortstr(),
            reader.shortstr(),
            reader.octet() & 1 != 0,
        )

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.virtual_host)
        writer.shortstr(self.capabilities)
        writer.octet(self.insist)


@dataclass
class ConnectionOpenOk(Method):
    id: ClassVar[int] = constants.CONNECTION_OPEN_OK
    name: ClassVar[str] = "connection.open-ok"

    known_hosts: str = ""

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionOpenOk:
        return ConnectionOpenOk(reader.shortstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.known_hosts)


@dataclass
class ConnectionClose(Method):
    id: ClassVar[int] = constants.CONNECTION_CLOSE
    name: ClassVar[str] = "connection.close"

    reply_code: int = 0
    reply_text: str = ""
    class_id: int = 0
    method_id: int = 0

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionClose:
        return ConnectionClose(reader.short(), reader.shortstr(), reader.short(), reader.short())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.reply_code)
        writer.shortstr(self.reply_text)
        writer.short(self.class_id)
        writer.short(self.method_id)


@dataclass
class ConnectionCloseOk(Method):
    id: ClassVar[int] = constants.CONNECTION_CLOSE_OK
    name: ClassVar[str] = "connection.close-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionCloseOk:
        return ConnectionCloseOk()

    def encode(self, writer: ArgumentWriter) -> None:
        """Has no arguments."""


@dataclass
class ConnectionBlocked(Method):
    id: ClassVar[int] = constants.CONNECTION_BLOCKED
    name: ClassVar[str] = "connection.blocked"

    reason: str = ""

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionBlocked:
        return ConnectionBlocked(reader.shortstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.reason)


@dataclass
class ConnectionUnblocked(Method):
    id: ClassVar[int] = constants.CONNECTION_UNBLOCKED
    name: ClassVar[str] = "connection.unblocked"

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionUnblocked:
        return ConnectionUnblocked()

    def encode(self, writer: ArgumentWriter) -> None:
        """Has no arguments."""


@dataclass
class ConnectionUpdateSecret(Method):
    id: ClassVar[int] = constants.CONNECTION_UPDATE_SECRET
    name: ClassVar[str] = "connection.update-secret"

    new_secret: bytes = b""
    reason: str = ""

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionUpdateSecret:
        return ConnectionUpdateSecret(reader.longstr(), reader.shortstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.longstr(self.new_secret)
        writer.shortstr(self.reason)


@dataclass
class ConnectionUpdateSecretOk(Method):
    id: ClassVar[int] = constants.CONNECTION_UPDATE_SECRET_OK
    name: ClassVar[str] = "connection.update-secret-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionUpdateSecretOk:
        return ConnectionUpdateSecretOk()

    def encode(self, writer: ArgumentWriter) -> None:
        """Has no arguments."""
