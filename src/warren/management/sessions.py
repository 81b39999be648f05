"""Who has logged in through the page: opaque tokens in a cookie, kept here only as digests.

A token says nothing and is worth nothing elsewhere. A session ends when it is not used, when its user goes or changes
the password, and when somebody logs out.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Final

from warren.broker.rules.access import Access, User

COOKIE: Final = "warren_session"
# What a page from elsewhere cannot send: browsers let only pages of the same origin set a header.
CSRF_HEADER: Final = "x-csrf-token"
IDLE_MS: Final = 3_600_000
SESSIONS_MAX: Final = 10_000


@dataclass
class LoginSession:
    user: str
    # What the user's password was; another one ends the session.
    password_hash: str
    csrf_token: str
    used_at: int


class Sessions:
    def __init__(self, access: Access) -> None:
        self._access = access
        self._sessions: dict[bytes, LoginSession] = {}

    def begin(self, user: User, now: int) -> tuple[str, LoginSession]:
        """The token for the cookie, and the session."""
        token = secrets.token_urlsafe(32)
        if len(self._sessions) >= SESSIONS_MAX:
            self._sweep(now)
        session = LoginSession(user.name, user.password_hash, secrets.token_urlsafe(16), now)
        self._sessions[_digest(token)] = session
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
        user = self._access.find(session.user)
        return user if user is not None and user.password_hash == session.password_hash else None

    def end(self, token: str) -> None:
        self._sessions.pop(_digest(token), None)

    def _sweep(self, now: int) -> None:
        """Those that ended go; if that is not enough, the one that was not used for longest."""
        self._sessions = {key: each for key, each in self._sessions.items() if now - each.used_at <= IDLE_MS}
        if len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[min(self._sessions, key=lambda key: self._sessions[key].used_at)]


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()
