"""Sockets that are read and written when poll says so, as far as it goes at once."""

from __future__ import annotations

import socket
import ssl

from warren.client.connection import Client


def unwaiting(client: Client) -> int:
    """The flags for each send and receive on it. With TLS, which knows no flags, a call may wait for the other half of
    a record or for room for one: for the broker, which never waits for us in turn.
    """
    client.socket.settimeout(None)
    return 0 if isinstance(client.socket, ssl.SSLSocket) else socket.MSG_DONTWAIT


def has_more(client: Client) -> bool:
    """Whether the rest of a record is there, of which poll knows nothing."""
    return isinstance(client.socket, ssl.SSLSocket) and client.socket.pending() > 0
