"""Who has logged in through the page: opaque tokens in a cookie, kept here only as digests.

A token says nothing and is worth nothing elsewhere. A session ends when it is not used, when its user goes or changes
the password, and when somebody logs out. Where there is a data folder, sessions outlive the broker: nobody who looks at
the page is sent away by a restart.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from warren.broker.rules.access import Access, User

COOKIE: Final = "warren_session"
# What a page from elsewhere cannot send: browsers let only pages of the same origin set a header.
CSRF_HEADER: Final = "x-csrf-token"
IDLE_MS: Final = 3_600_000
SESSIONS_MAX: Final = 10_000
FILE_NAME: Final = "sessions.json"
log = logging.getLogger("warren.management")


@dataclass
class LoginSession:
    user: str
    # A digest of what the user's password was; another one ends the session.
    password: str
    csrf_token: str
    used_at: int


class Sessions:
    def __init__(self, access: Access, data_dir: str, now: int) -> None:
        self._access = access
        self._file = Path(data_dir, FILE_NAME) if data_dir else None
        self._sessions: dict[str, LoginSession] = {}
        self._load(now)

    def begin(self, user: User, now: int) -> tuple[str, LoginSession]:
        """The token for the cookie, and the session."""
        token = secrets.token_urlsafe(32)
        if len(self._sessions) >= SESSIONS_MAX:
            self._sweep(now)
        session = LoginSession(user.name, _digest(user.password_hash), secrets.token_urlsafe(16), now)
        self._sessions[_digest(token)] = session
        self._save()
        return token, session

    def find(self, token: str, now: int) -> LoginSession | None:
        session = self._sessions.get(_digest(token))
        if session is None:
            return None
        if now - session.used_at > IDLE_MS or self.user_of(session) is None:
            self.end(token)
            return None
        session.used_at = now
        return session

    def user_of(self, session: LoginSession) -> User | None:
        user = self._access.users.get(session.user)
        return user if user is not None and _digest(user.password_hash) == session.password else None

    def end(self, token: str) -> None:
        if self._sessions.pop(_digest(token), None) is not None:
            self._save()

    def _sweep(self, now: int) -> None:
        """Those that ended go; if that is not enough, the one that was not used for longest."""
        self._sessions = {key: each for key, each in self._sessions.items() if now - each.used_at <= IDLE_MS}
        if len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[min(self._sessions, key=lambda key: self._sessions[key].used_at)]

    def _load(self, now: int) -> None:
        """Those of the last run, as if they had just been used: how long nobody was there to be asked is not known."""
        if self._file is None or not self._file.exists():
            return
        try:
            rows = json.loads(self._file.read_text())
            self._sessions = {digest: LoginSession(row[0], row[1], row[2], now) for digest, row in rows.items()}
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            log.warning("nobody stays logged in: %s cannot be read: %s", self._file, error)

    def _save(self) -> None:
        if self._file is None:
            return
        rows = {key: [each.user, each.password, each.csrf_token] for key, each in self._sessions.items()}
        fresh = self._file.with_suffix(".new")
        try:
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(handle, "w") as file:
                json.dump(rows, file)
            fresh.replace(self._file)
        except OSError as error:
            log.warning("sessions will not outlive the broker: %s", error)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()
