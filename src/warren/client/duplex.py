"""Sends in bulk while it reads: a broker that answers while we write must never wait for us to stop writing."""

from __future__ import annotations

import select
import socket
import ssl

from warren.client.connection import READ_BYTES, Client, ConnectionLost


class Duplex:
    """Takes over a client's socket. Heartbeats go on, between two sends."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._socket: socket.socket = client.socket
        self._out = memoryview(b"")
        self._has_received = False
        self._socket.setblocking(False)

    def write(self, data: bytes) -> None:
        """Returns when all is with the kernel. What came meanwhile is in the session."""
        with self._client.sending:
            self._out = memoryview(data)
            while self._out:
                self._turn(self._client.timeout)

    def read(self, timeout: float) -> bool:
        """Whether anything has come, or comes within the timeout."""
        self._has_received = False
        with self._client.sending:
            self._turn(timeout)
        return self._has_received

    def restore(self) -> None:
        """Back to a socket that blocks, for closing."""
        self._socket.settimeout(self._client.timeout)

    def _turn(self, timeout: float) -> None:
        """One wait for whatever can go on."""
        # TLS may have read ahead, where select does not look.
        if self._receive() or self._send():
            return
        can_read, can_write, _ = select.select([self._socket], [self._socket] if self._out else [], [], timeout)
        if self._out and not can_read and not can_write:
            raise ConnectionLost(f"the broker at {self._client.target.place} has read nothing for {timeout:g} s")
        if can_read:
            self._receive()

    def _receive(self) -> bool:
        try:
            data = self._socket.recv(READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError as error:
            raise self._client.lost(error) from error
        if not data:
            raise ConnectionLost("lost the connection: the broker closed it without a word")
        self._client.session.feed(data)
        self._has_received = True
        return True

    def _send(self) -> bool:
        if not self._out:
            return False
        try:
            sent = self._socket.send(self._out)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError as error:
            # The broker may have said why before it closed; what it said is read first.
            if self._receive():
                return True
            raise self._client.lost(error) from error
        self._out = self._out[sent:]
        return True
