"""Channel 0: protocol header, login, tuning, opening a vhost, closing; and what may be told to whom before login."""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from warren.amqp import methods
from warren.amqp.constants import (
    CONNECTION_START_OK,
    CONNECTION_TUNE,
    FRAME_MIN_SIZE,
    PROTOCOL_HEADER,
    PUBLISHER,
    STREAM_PORTS,
    STREAM_TLS_PORTS,
)
from warren.amqp.fields import Field, Table, table_of
from warren.amqp.replies import frame
from warren.amqp.tables import decode_table
from warren.broker.queue.outlet import RUNNING, STARTING
from warren.broker.rules.access import is_loopback
from warren.broker.session.connection import Connection
from warren.broker.session.numbering import Numbering
from warren.broker.wire import dispatch
from warren.errors import (
    NO_METHOD,
    AmqpError,
    ChannelError,
    CommandInvalid,
    HardError,
    LoginRefused,
    NotAllowed,
    SyntaxRefused,
)

_CAPABILITIES: Final = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)
# Clients branch on these two (kombu's prefetch, Celery's queue types): Warren behaves like this release.
_PRODUCT: Final = "RabbitMQ"
_VERSION: Final = "3.13.7"
_INFO: Final = 20
# How much of what is said is kept, and of how many.
_CLIENT_BYTES: Final = 2048
_CLIENTS: Final = 64
_NOTHING_SAID: Final = b"\x00\x00\x00\x00"
# As logins are counted by it.
_PROTOCOL: Final = "amqp091"

# Between the first stage of a connection and its second.
_AUTHENTICATING: Final = "securing"
_TUNING: Final = "tuning"
_OPENING: Final = "opening"


class Handshake:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.greeted = False

    def greet(self, header: bytes) -> None:
        """The first eight bytes. Whoever speaks something else is told what we speak."""
        connection = self.connection
        self.greeted = True
        if header not in (PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09"):
            connection.node.host.log(_INFO, f"closing {connection.name}: not AMQP 0-9-1 ({header!r})")
            connection.send(PROTOCOL_HEADER)
            connection.end()
            return
        settings = connection.node.settings
        mechanisms = list(settings.mechanisms)
        if connection.tls_subject is not None:
            mechanisms.append("EXTERNAL")
        connection.send(self._start(" ".join(mechanisms)))

    def _start(self, mechanisms: str) -> bytes:
        """The same for all, until the cluster gets another name, or other nodes."""
        node = self.connection.node
        key = (node.settings.cluster_name, mechanisms)
        start = node.greetings.get(key)
        if start is None:
            start = frame(0, methods.ConnectionStart(0, 9, self._server_properties(), mechanisms.encode(), b"en_US"))
            node.greetings = {key: start}
        return start

    def _server_properties(self) -> Table:
        settings = self.connection.node.settings
        properties = table_of(
            {
                "cluster_name": settings.cluster_name,
                "copyright": "Copyright (c) the Warren developers",
                "information": "Warren, a message broker in Python that speaks AMQP 0-9-1 as RabbitMQ does",
                "platform": "Python",
                "product": _PRODUCT,
                "version": _VERSION,
                "warren_version": self.connection.node.version,
                PUBLISHER: True,
            }
        )
        properties["capabilities"] = Field("F", table_of(dict.fromkeys(_CAPABILITIES, True)))
        node = self.connection.node
        for name, ports in ((STREAM_PORTS, node.stream_ports), (STREAM_TLS_PORTS, node.stream_tls_ports)):
            if ports:
                properties[name] = Field("A", [Field("S", port) for port in ports])
        return properties

    def decoded(self, method_id: i64, data: bytes, start: i64, end: i64) -> methods.Method:
        """Clients of one kind say the same of themselves, at length: that is taken apart, and kept, once."""
        if method_id != CONNECTION_START_OK or end - start < 4:
            return dispatch.decoded(method_id, data, start, end)
        after = start + 4 + (i64(read_i32_be(data, start)) & 0xFFFFFFFF)
        said = data[start:after]
        clients = self.connection.node.clients
        known = clients.get(said) if after <= end else None
        if known is not None:
            rest = _NOTHING_SAID + data[after:end]
            method = dispatch.decoded(method_id, rest, 0, len(rest))
            assert isinstance(method, methods.ConnectionStartOk)
            method.client_properties = known
            return method
        method = dispatch.decoded(method_id, data, start, end)
        assert isinstance(method, methods.ConnectionStartOk)
        if len(said) <= _CLIENT_BYTES:
            if len(clients) >= _CLIENTS:
                clients.clear()
            clients[said] = method.client_properties
        return method

    def handle(self, method: methods.Method) -> None:
        if isinstance(method, methods.ConnectionClose) and self.connection.intake.state == RUNNING:
            self.connection.closed_by_client()
        elif isinstance(method, methods.ConnectionUpdateSecret) and self.connection.intake.state == RUNNING:
            self._update_secret()
        elif isinstance(method, methods.ConnectionStartOk) and self.connection.intake.state == STARTING:
            self._start_ok(method)
        elif isinstance(method, methods.ConnectionTuneOk) and self.connection.intake.state == _TUNING:
            self._tune_ok(method)
        elif isinstance(method, methods.ConnectionOpen) and self.connection.intake.state == _OPENING:
            self._open(method)
        else:
            raise ChannelError(f"unexpected method in connection state {self.connection.intake.state}")

    def may_tell(self, error: AmqpError) -> bool:
        """Before login only a refused login is told, and only to clients that asked to be told."""
        if self.connection.intake.state == RUNNING:
            return True
        if isinstance(error, LoginRefused):
            return self.connection.can("authentication_failure_close")
        return isinstance(error, NotAllowed) or self.connection.intake.state == _OPENING

    # -- login -----------------------------------------------------------------------------------------------------

    def _start_ok(self, method: methods.ConnectionStartOk) -> None:
        connection = self.connection
        connection.client_properties = method.client_properties
        capabilities = method.client_properties.get("capabilities")
        if capabilities is not None and isinstance(capabilities.value, dict):
            connection.client_capabilities = capabilities.value
        connection.mechanism = method.mechanism
        self.connection.intake.state = _AUTHENTICATING
        if method.mechanism == "EXTERNAL" and connection.tls_subject is not None:
            is_known = connection.tls_subject in connection.node.access.users
            connection.node.logins.counted(_PROTOCOL, is_known)
            self._log_in(connection.tls_subject, is_known)
            return
        if method.mechanism not in connection.node.settings.mechanisms:
            self.connection.intake.state = STARTING
            raise CommandInvalid(f"unknown authentication mechanism '{method.mechanism}'")
        if method.mechanism == "PLAIN":
            user, password = _plain(method.response)
        else:
            user, password = _amqplain(method.response)
        connection.user = user
        self._verify(user, password)

    def _verify(self, user: str, password: str) -> None:
        connection = self.connection
        node = connection.node
        known = node.access.users.get(user)
        algorithm = known.hashing_algorithm if known is not None else ""
        password_hash = known.password_hash if known is not None else ""
        if node.host.remembers_password(algorithm, password_hash, password):
            # Clients that connect for every task come back by the thousand; nobody who guesses may keep them out.
            node.logins.counted(_PROTOCOL, True)
            self._let_in(user)
            return
        if node.logins.begin(connection.peer_host, user, node.now) > 0:
            # Not even looked at, so it neither costs nor tells anything.
            self._refuse_login(f"too many failed logins of user '{user}' from {connection.peer_host}")
        connection.awaiting_password = True
        # An unknown user is verified against nothing, so that it takes as long as a wrong password.
        node.host.verify_password(connection, algorithm, password_hash, password)

    def password_verified(self, is_right: bool) -> None:
        connection = self.connection
        connection.awaiting_password = False
        node = connection.node
        node.logins.noted(_PROTOCOL, connection.peer_host, connection.user, is_right, node.now)
        try:
            self._log_in(connection.user, is_right)
        except HardError as error:
            connection.fail(error)
            return
        connection.read_on()

    def _log_in(self, user: str, is_right: bool) -> None:
        connection = self.connection
        node = connection.node
        if not is_right:
            node.events.login(False, connection, user)
            self._refuse_login(f"{connection.mechanism} login refused: user '{user}' - invalid credentials")
        self._let_in(user)

    def _let_in(self, user: str) -> None:
        connection = self.connection
        node = connection.node
        node.events.login(True, connection, user)
        if user in node.settings.loopback_users and not is_loopback(connection.peer_host):
            self._refuse_login(f"user '{user}' can only connect via localhost")
        connection.user = user
        settings = node.settings
        self.connection.intake.state = _TUNING
        connection.answer(methods.ConnectionTune(settings.channel_max, settings.frame_max, settings.heartbeat))

    def _refuse_login(self, why: str) -> None:
        connection = self.connection
        connection.node.host.log(40, f"{connection.name}: {why}")
        raise LoginRefused(
            f"Login was refused using authentication mechanism {connection.mechanism}. "
            "For details see the broker logfile.",
            NO_METHOD,
        )

    # -- tuning and opening ----------------------------------------------------------------------------------------

    def _tune_ok(self, method: methods.ConnectionTuneOk) -> None:
        connection = self.connection
        settings = connection.node.settings
        _check_negotiated("frame_max", method.frame_max, FRAME_MIN_SIZE, settings.frame_max)
        _check_negotiated("channel_max", method.channel_max, 1, settings.channel_max)
        connection.frame_max = method.frame_max
        connection.channel_max = method.channel_max
        connection.heartbeat = method.heartbeat
        self.connection.intake.state = _OPENING

    def _open(self, method: methods.ConnectionOpen) -> None:
        connection = self.connection
        node = connection.node
        name = method.virtual_host
        node.check_connection_limit(connection)
        vhost = node.open_vhost(name)
        if vhost is None:
            raise NotAllowed(f"vhost {name} not found")
        vhost.check_connection_limit(connection.user)
        node.check_user_connection_limit(connection)
        if not node.access.may_access_vhost(connection.user, name):
            raise NotAllowed(f"access to vhost '{name}' refused for user '{connection.user}'")
        self.connection.intake.state = RUNNING
        connection.numbering = Numbering.of(connection.user, connection.client_properties)
        connection.opened(vhost)
        connection.wire.opened()
        connection.answer(methods.ConnectionOpenOk())
        connection.node.opened(connection)

    # -- a new secret ----------------------------------------------------------------------------------------------

    def _update_secret(self) -> None:
        """For tokens that expire. Users of our own have passwords, whose new value changes nothing, as in RabbitMQ;
        but what the user may no longer do is asked again."""
        connection = self.connection
        vhost = connection.vhost
        if vhost is None or not connection.node.access.may_access_vhost(connection.user, vhost.name):
            raise NotAllowed("New secret was refused by one of the backends")
        for channel in connection.channels.values():
            channel.cancel_unreadable()
        connection.answer(methods.ConnectionUpdateSecretOk())


def _plain(response: bytes) -> tuple[str, str]:
    parts = response.split(b"\x00")
    if len(parts) != 3 or parts[0] != b"":
        raise SyntaxRefused(f"response {response!r} invalid")
    return parts[1].decode("utf-8", "replace"), parts[2].decode("utf-8", "replace")


def _amqplain(response: bytes) -> tuple[str, str]:
    table = decode_table(response, 0, len(response))
    login = table.get("LOGIN")
    password = table.get("PASSWORD")
    if login is None or password is None or not isinstance(login.value, str) or not isinstance(password.value, str):
        raise SyntaxRefused("AMQPLAIN auth info is missing LOGIN or PASSWORD field")
    return login.value, password.value


def _check_negotiated(name: str, value: i64, least: i64, most: i64) -> None:
    if value != 0 and value < least:
        raise NotAllowed(
            f"negotiated {name} = {value} is lower than the minimum allowed value ({least})", CONNECTION_TUNE
        )
    if most != 0 and (value == 0 or value > most):
        shown = "0 (no limit)" if value == 0 else str(value)
        raise NotAllowed(
            f"negotiated {name} = {shown} is higher than the maximum allowed value ({most})", CONNECTION_TUNE
        )
