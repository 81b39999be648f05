"""What a scripted session works with, and the list of all sessions.

A session is a function that plays a client: it takes a Session, opens connections, calls, and returns. Everything that
its connections received is the recording. Names come from `s.name`, so that sessions can run side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from tests.differential.brokers import Address, Admin
from tests.differential.client import Broken, Channel, Connection, Event
from tests.differential.recording import Recording, record

# Fields of a method, arguments of a declaration, properties of a message.
Fields = dict[str, Any]
Script = Callable[["Session"], None]


class Turn(Enum):
    TOGETHER = 1
    # It changes the whole broker, with an alarm for example, and runs when the others are done.
    ALONE = 2
    # It stops the broker.
    LAST = 3


@dataclass(frozen=True)
class Entry:
    """A session as it is listed."""

    name: str
    script: Script
    turn: Turn


SESSIONS: Final[dict[str, Entry]] = {}


def session(script: Script) -> Script:
    """Lists a function as a session, under the name of its file and its own."""
    add(_title(script), script)
    return script


def session_at(turn: Turn) -> Callable[[Script], Script]:
    """Lists a session that cannot run together with others."""

    def listed(script: Script) -> Script:
        add(_title(script), script, turn)
        return script

    return listed


def add(name: str, script: Script, turn: Turn = Turn.TOGETHER) -> None:
    if name in SESSIONS:
        raise ValueError(f"two sessions are named {name!r}")
    SESSIONS[name] = Entry(name, script, turn)


def _title(script: Script) -> str:
    chapter = script.__module__.rsplit(".", 1)[-1]
    return f"{chapter}: {script.__name__}".replace("_", " ")


class Session:
    """One run of a script against one broker."""

    def __init__(self, address: Address, admin: Admin, prefix: str) -> None:
        self.admin = admin
        self.connections: list[Connection] = []
        self._address = address
        self._prefix = prefix
        self._names: list[str] = []
        self._vhosts: list[str] = []
        self._users: list[str] = []
        self._policies: list[str] = []

    # ---- names and the cast ----

    def name(self, name: str) -> str:
        """A name of this session's own."""
        self._names.append(self._prefix + name)
        return self._prefix + name

    def user(self, name: str = "alice", **rights: str) -> str:
        """A user whose password is `secret`; rights: tags, vhost, configure, write, read."""
        user = self._prefix + name
        self.admin.add_user(user, "secret", **rights)
        self._users.append(user)
        return user

    def vhost(self, name: str = "v") -> str:
        vhost = self._prefix + name
        self.admin.add_vhost(vhost)
        self._vhosts.append(vhost)
        return vhost

    def policy(self, pattern: str, definition: dict[str, object], name: str = "p", apply_to: str = "all") -> None:
        policy = self._prefix + name
        self.admin.set_policy(policy, pattern, definition, apply_to)
        self._policies.append(policy)

    # ---- connections ----

    def socket(self) -> Connection:
        """A TCP connection on which nothing was sent yet."""
        connection = Connection(self._address.host, self._address.port)
        self.connections.append(connection)
        return connection

    def connect(self, user: str = "", vhost: str = "/", **tune: int) -> Connection:
        connection = self.socket()
        connection.login(user or "guest", "secret" if user else "guest", vhost, **tune)
        return connection

    def channel(self, user: str = "", vhost: str = "/") -> Channel:
        """Channel 1 of a new connection: where most stories begin."""
        return self.connect(user, vhost).channel()

    def note(self, connection: Connection, text: str) -> None:
        """Puts a remark of the script's own into the record."""
        connection.events.setdefault(0, []).append(Event(f"note: {text}"))

    # ---- the end ----

    def play(self, script: Script) -> Recording:
        try:
            script(self)
            self._leave()
        except Exception as error:  # noqa: BLE001 - see below
            # A task's top: whatever stops a script is what it saw of this broker, and no reason to stop the others.
            reason = str(error) if isinstance(error, Broken) else repr(error)
            self.note(self.connections[0] if self.connections else self.socket(), f"the session broke off: {reason}")
        for connection in self.connections:
            connection.drop()
        self._clean_up()
        return record(self.connections, self._prefix)

    def _leave(self) -> None:
        for connection in self.connections:
            if connection.is_closing:
                connection.wait_closed()
            connection.round_trip()
        for connection in self.connections:
            connection.close()

    def _clean_up(self) -> None:
        for vhost in self._vhosts:
            self.admin.delete_vhost(vhost)
        for user in self._users:
            self.admin.delete_user(user)
        for policy in self._policies:
            self.admin.delete_policy(policy)
        if not self._names:
            return
        cleaner = Connection(self._address.host, self._address.port)
        cleaner.login("guest", "guest", "/")
        channel = cleaner.channel()
        for name in self._names:
            channel.send("queue.delete", queue=name, nowait=True)
            channel.send("exchange.delete", exchange=name, nowait=True)
        cleaner.close()
