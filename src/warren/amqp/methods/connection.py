"""Connection: greeting, limits, opening and closing. These travel on channel 0 only."""

from __future__ import annotations

from typing import ClassVar

from warren.amqp import constants
from warren.amqp.fields import Table
from warren.amqp.methods.base import Method, Names
from warren.amqp.reader import ArgumentReader
from warren.amqp.writer import ArgumentWriter


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

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionStart:
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

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionStartOk:
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

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionSecure:
        return ConnectionSecure(reader.longstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.longstr(self.challenge)


class ConnectionSecureOk(Method):
    id: ClassVar[int] = constants.CONNECTION_SECURE_OK
    name: ClassVar[str] = "connection.secure-ok"
    fields: ClassVar[Names] = ("response",)

    def __init__(self, response: bytes = b"") -> None:
        self.response = response

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionSecureOk:
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

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionTune:
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

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionTuneOk:
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


class ConnectionOpenOk(Method):
    id: ClassVar[int] = constants.CONNECTION_OPEN_OK
    name: ClassVar[str] = "connection.open-ok"
    fields: ClassVar[Names] = ("known_hosts",)

    def __init__(self, known_hosts: str = "") -> None:
        self.known_hosts = known_hosts

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionOpenOk:
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

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionClose:
        return ConnectionClose(reader.short(), reader.shortstr(), reader.short(), reader.short())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.short(self.reply_code)
        writer.shortstr(self.reply_text)
        writer.short(self.class_id)
        writer.short(self.method_id)


class ConnectionCloseOk(Method):
    id: ClassVar[int] = constants.CONNECTION_CLOSE_OK
    name: ClassVar[str] = "connection.close-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionCloseOk:
        return ConnectionCloseOk()


class ConnectionBlocked(Method):
    id: ClassVar[int] = constants.CONNECTION_BLOCKED
    name: ClassVar[str] = "connection.blocked"
    fields: ClassVar[Names] = ("reason",)

    def __init__(self, reason: str = "") -> None:
        self.reason = reason

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionBlocked:
        return ConnectionBlocked(reader.shortstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.shortstr(self.reason)


class ConnectionUnblocked(Method):
    id: ClassVar[int] = constants.CONNECTION_UNBLOCKED
    name: ClassVar[str] = "connection.unblocked"

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionUnblocked:
        return ConnectionUnblocked()


class ConnectionUpdateSecret(Method):
    id: ClassVar[int] = constants.CONNECTION_UPDATE_SECRET
    name: ClassVar[str] = "connection.update-secret"
    fields: ClassVar[Names] = ("new_secret", "reason")

    def __init__(self, new_secret: bytes = b"", reason: str = "") -> None:
        self.new_secret = new_secret
        self.reason = reason

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionUpdateSecret:
        return ConnectionUpdateSecret(reader.longstr(), reader.shortstr())

    def encode(self, writer: ArgumentWriter) -> None:
        writer.longstr(self.new_secret)
        writer.shortstr(self.reason)


class ConnectionUpdateSecretOk(Method):
    id: ClassVar[int] = constants.CONNECTION_UPDATE_SECRET_OK
    name: ClassVar[str] = "connection.update-secret-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> ConnectionUpdateSecretOk:
        return ConnectionUpdateSecretOk()
