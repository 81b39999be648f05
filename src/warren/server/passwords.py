"""Passwords: hashed slowly (argon2id) for users made here, verified for these and for users brought from RabbitMQ.

What was verified once is remembered, so that a client which connects again and again pays once. Remembered is a keyed
digest, never a password; the key lives as long as the process.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from hashlib import blake2b

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError

from warren.broker.rules import hashing
from warren.errors import WarrenError

REMEMBERED_MAX = 1024


class Passwords:
    """May be asked from several threads. Slow: ask it off the loop."""

    def __init__(self, algorithm: str = hashing.ARGON2ID) -> None:
        if algorithm != hashing.ARGON2ID and not hashing.is_fast(algorithm):
            raise WarrenError(f"unknown password hashing algorithm '{algorithm}'")
        self._algorithm = algorithm
        # OWASP's choice for servers: 19 MiB and two passes, some 20 ms.
        self._argon2 = PasswordHasher(time_cost=2, memory_cost=19456, parallelism=1, type=Type.ID)
        self._keyed = blake2b(key=secrets.token_bytes(32), digest_size=32)
        self._nobody = ""
        self._verified: OrderedDict[bytes, None] = OrderedDict()
        self._lock = threading.Lock()

    def hash(self, password: str) -> tuple[str, str]:
        """Algorithm and hash, as a user is stored."""
        if not password:
            raise WarrenError("a password must not be empty")
        if self._algorithm == hashing.ARGON2ID:
            return self._algorithm, self._argon2.hash(password.encode(errors="surrogateescape"))
        salt = secrets.token_bytes(hashing.SALT_BYTES)
        return self._algorithm, hashing.encode(self._algorithm, salt, password)

    def verify(self, algorithm: str, password_hash: str, password: str) -> bool:
        """An unknown user is asked about with an empty algorithm and hash.

        Whatever is refused has cost one argon2: who guesses cannot tell by the clock a user that does not exist, one
        with RabbitMQ's fast hash and one with ours apart.
        """
        seal = self._seal(algorithm, password_hash, password)
        if self._is_remembered(seal):
            return True
        if algorithm == hashing.ARGON2ID and password_hash and password:
            is_right = self._verify_argon2(password_hash, password)
        else:
            is_right = hashing.is_fast(algorithm) and hashing.verify(algorithm, password_hash, password)
            if not is_right:
                self._verify_argon2(self._hash_of_nobody(), password)
        if is_right:
            self._remember(seal)
        return is_right

    def remembers(self, algorithm: str, password_hash: str, password: str) -> bool:
        """Verified before, and right. This one is quick enough for the loop."""
        return self._is_remembered(self._seal(algorithm, password_hash, password))

    def _verify_argon2(self, password_hash: str, password: str) -> bool:
        try:
            return self._argon2.verify(password_hash, password.encode(errors="surrogateescape"))
        except (VerificationError, InvalidHashError):
            return False

    def _hash_of_nobody(self) -> str:
        if not self._nobody:
            self._nobody = self._argon2.hash(secrets.token_bytes(32))
        return self._nobody

    def _seal(self, algorithm: str, password_hash: str, password: str) -> bytes:
        digest = self._keyed.copy()
        # With their lengths: no two triples may read the same.
        text = f"{len(algorithm)} {len(password_hash)} {algorithm}{password_hash}{password}"
        digest.update(text.encode(errors="surrogateescape"))
        return digest.digest()

    def _is_remembered(self, seal: bytes) -> bool:
        with self._lock:
            if seal not in self._verified:
                return False
            self._verified.move_to_end(seal)
            return True

    def _remember(self, seal: bytes) -> None:
        with self._lock:
            self._verified[seal] = None
            if len(self._verified) > REMEMBERED_MAX:
                self._verified.popitem(last=False)
