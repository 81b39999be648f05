"""Open ports: AMQP on every address of the host, and the same over TLS when there is a certificate."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from dataclasses import dataclass, field

from warren.config import Config
from warren.errors import WarrenError
from warren.server.tls import context_of
from warren.server.turn.gate import Entrance, Gate, MakeProtocol

# A free port of one address family may be taken in the other: then the next free one is tried.
FREE_PORT_TRIES = 10


@dataclass
class Listener:
    """One port, on all addresses of its host."""

    protocol: str
    host: str
    port: int
    entrances: list[Entrance] = field(default_factory=list)
    tls: ssl.SSLContext | None = None

    def close(self) -> None:
        for entrance in self.entrances:
            entrance.close()


def listen(config: Config, gate: Gate, make_protocol: MakeProtocol) -> list[Listener]:
    """All ports or none."""
    # Before the first port opens: a certificate that cannot be read must leave none behind.
    context = context_of(config) if config.has_tls else None
    plain = open_port("amqp", config.host, config.amqp_port, gate, make_protocol, None)
    if context is None:
        return [plain]
    try:
        return [plain, open_port("amqp/ssl", config.host, config.tls_port, gate, make_protocol, context)]
    except BaseException:
        plain.close()
        raise


def bind(host: str, port: int) -> list[socket.socket]:
    """Bound sockets for every address that the host stands for, all on the same port."""
    for _ in range(FREE_PORT_TRIES):
        try:
            return _bind_all(host, port)
        except OSError as error:
            if port != 0 or error.errno != errno.EADDRINUSE:
                raise WarrenError(f"cannot listen on {host}:{port}: {reason_of(error)}") from error
    raise WarrenError(f"cannot listen on {host}: no port is free on all of its addresses")


def reason_of(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is in use"
    # asyncio and getaddrinfo wrap the reason in sentences of their own.
    is_system_error = error.errno is not None and error.errno > 0
    return os.strerror(error.errno).lower() if is_system_error and error.errno is not None else str(error.strerror)


def _bind_all(host: str, port: int) -> list[socket.socket]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((entry[0], entry[4]) for entry in found):
            made = socket.socket(family, socket.SOCK_STREAM)
            sockets.append(made)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                # `::` alone means all of both families; next to an IPv4 socket it must keep to its own.
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
            made.bind((address[0], port or address[1], *address[2:]))
            port = made.getsockname()[1]
            made.setblocking(False)
    except OSError:
        for each in sockets:
            each.close()
        raise
    return sockets


def open_port(
    protocol: str,
    host: str,
    port: int,
    gate: Gate,
    make_protocol: MakeProtocol,
    context: ssl.SSLContext | None,
) -> Listener:
    sockets = bind(host, port)
    listener = Listener(protocol, host, sockets[0].getsockname()[1], tls=context)
    for each in sockets:
        try:
            listener.entrances.append(gate.open(each, make_protocol, context))
        except OSError as error:
            # With SO_REUSEADDR a taken port may show only here, on listen().
            listener.close()
            for left in sockets:
                left.close()
            raise WarrenError(f"cannot listen on {host}:{port}: {reason_of(error)}") from error
    return listener
