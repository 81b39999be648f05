"""A node that follows: a thread that keeps its files those of the leader. It does nothing else, so it may block."""

from __future__ import annotations

import logging
import select
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from warren.replication import messages
from warren.replication.follower import Fenced, Follower, NodeMemory
from warren.replication.messages import Garbled, PeerMessage, Splitter
from warren.replication.ops import OpMoment
from warren.server.peers import FOLLOW, NONCE, PROOF, Greeting, Stranger, Whereabouts, callers_proof
from warren.store.disk import RealDisk

log = logging.getLogger("warren.cluster")

_READ: Final = 1 << 20
# Seconds without a word from the leader, which sends a heartbeat twice a second.
_SILENCE: Final = 3.0


class DiskFailed(Exception):
    """What the leader says cannot be kept here."""


class Behind(Exception):
    """The leader does not have all that came since."""


class Following:
    """One connection to one leader, until it ends or is ended."""

    def __init__(
        self,
        leader: Whereabouts,
        secret: str,
        uuid: str,
        memory: NodeMemory,
        moment: OpMoment | None,
        folder: Path,
        on_end: Callable[[Following], None],
        on_committed: Callable[[Following, dict[str, int]], None],
        tls: ssl.SSLContext | None,
    ) -> None:
        self.leader = leader
        self._secret = secret
        self._uuid = uuid
        self.machine = Follower(RealDisk(folder), uuid, memory, moment if leader.knows_moments else None)
        self._on_end = on_end
        # Told in the thread what of the files may be shown (Follower.take_committed).
        self._on_committed = on_committed
        self._tls = tls
        # One does not believe the other, or the disk fails: that is not mended by calling again at once.
        self.is_refused = False
        # Its files may be others than before. It does not begin when it is over, nor is it over unseen.
        self.has_begun = False
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="warren-follower", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the connection; the thread ends when its disk lets it. One that has not begun changes nothing more."""
        with self._lock:
            self._is_over = True
        if self._socket is not None:
            with suppress(OSError):
                # Of the socket below TLS, which the thread may be using.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def join(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._follow()
        except ssl.SSLEOFError as error:
            log.info("the leader is gone: %s", error)
        except (Stranger, Fenced, Garbled, Behind, DiskFailed, ssl.SSLError) as error:
            self.is_refused = not isinstance(error, (Fenced, Garbled, Behind))
            log.warning("following %s:%d ends: %s", *self.leader.replication, error)
        except OSError as error:
            if not self._is_over:
                log.log(logging.INFO if self.machine.is_streaming else logging.DEBUG, "the leader is gone: %s", error)
        # Whatever was acknowledged is durable: a disk that fails here loses nothing that counts.
        with suppress(OSError):
            self.machine.close()
        self._on_end(self)

    def _follow(self) -> None:
        with self._call() as connection:
            connection.settimeout(_SILENCE)
            connection.sendall(self.machine.greeting().encode())
            splitter, buffer = Splitter(), memoryview(bytearray(_READ))
            while not self._is_over:
                size = _read(connection, buffer)
                if size == 0:
                    return
                self._take(connection, splitter, buffer[:size])

    def _call(self) -> socket.socket:
        """A connection on which both sides have proved themselves."""
        address = self.leader.replication
        connection = self._socket = socket.create_connection(address, timeout=_SILENCE)
        try:
            if self._tls is not None:
                encrypted = self._tls.wrap_socket(connection, server_hostname=address[0], do_handshake_on_connect=False)
                connection = self._socket = encrypted
                encrypted.do_handshake()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            greeting = Greeting.new(FOLLOW, self._uuid, self.leader.speaks)
            connection.sendall(greeting.encode())
            connection.sendall(callers_proof(self._secret, greeting, _exactly(connection, NONCE + PROOF)))
        except BaseException:
            connection.close()
            raise
        return connection

    def _take(self, connection: socket.socket, splitter: Splitter, data: memoryview) -> None:
        with self._lock:
            if self._is_over:
                return
            self.has_begun = True
        try:
            answers = b"".join(answer.encode() for answer in self._answers(splitter.feed(data)))
        except OSError as error:
            raise DiskFailed(f"its own disk fails: {error}") from error
        if answers:
            connection.sendall(answers)
        committed = self.machine.take_committed()
        if committed:
            self._on_committed(self, committed)

    def _answers(self, said: list[PeerMessage]) -> list[PeerMessage]:
        answers: list[PeerMessage] = []
        for message in said:
            if message.kind == messages.MANIFEST and self.machine.is_streaming:
                # Whoever reads these files must have left before they are changed: that is how each call begins.
                raise Behind("too far behind: the files are copied once more")
            answers += self.machine.receive(message)
            if message.kind == messages.CAUGHT_UP:
                log.info("all files are those of the leader")
                answers += self.machine.acknowledgement()
        return answers + self.machine.sync()


def _read(connection: socket.socket, buffer: memoryview) -> int:
    """What there is, at least a byte of it; none when the other side has gone."""
    size = connection.recv_into(buffer)
    if isinstance(connection, ssl.SSLSocket):
        # TLS gives 16 KB at a time, and what is read together is synced together.
        while 0 < size < len(buffer) and select.select([connection], [], [], 0)[0]:
            more = connection.recv_into(buffer[size:])
            if more == 0:
                break
            size += more
    return size


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("the connection was closed")
        data += part
    return data
