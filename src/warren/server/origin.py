"""Whence a client came: its address, whether by TLS, and the name in its certificate. A follower that passes it on says
so, for to the leader the connection is the follower's."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from warren.server.tls import subject_of
from warren.server.turn.gate import address_of


@dataclass(frozen=True)
class ClientOrigin:
    host: str
    port: int
    is_encrypted: bool = False
    subject: str | None = None

    def encode(self) -> bytes:
        """host: short string  port(2), and of a client that came by TLS  length(2) subject."""
        host = self.host.encode()
        plain = bytes([len(host)]) + host + self.port.to_bytes(2, "big")
        if not self.is_encrypted:
            return plain
        subject = (self.subject or "").encode()
        return plain + len(subject).to_bytes(2, "big") + subject

    @staticmethod
    def decode(data: bytes, is_encrypted: bool) -> tuple[ClientOrigin, bytes] | None:
        """And what follows it; None while it is not all there."""
        end = 3 + data[0] if data else 3
        if len(data) < end:
            return None
        host, port = data[1 : end - 2].decode(), int.from_bytes(data[end - 2 : end], "big")
        if not is_encrypted:
            return ClientOrigin(host, port), data[end:]
        start = end + 2
        end = start + int.from_bytes(data[start - 2 : start], "big")
        if len(data) < max(start, end):
            return None
        return ClientOrigin(host, port, True, data[start:end].decode() or None), data[end:]


def origin_of(stream: asyncio.BaseTransport | asyncio.StreamWriter) -> ClientOrigin:
    host, port = address_of(stream.get_extra_info("peername"))
    encrypted = stream.get_extra_info("ssl_object")
    return ClientOrigin(host, port, encrypted is not None, subject_of(encrypted))
