"""RabbitMQ's password hashes: base64 of a salt of four bytes and the digest of salt and password.

They are fast to compute, so they are fast to guess: Warren reads them, and gives its own users something slower
(server/passwords.py).
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
from base64 import b64decode, b64encode
from typing import Final

SHA256: Final = "rabbit_password_hashing_sha256"
SHA512: Final = "rabbit_password_hashing_sha512"
MD5: Final = "rabbit_password_hashing_md5"
ARGON2ID: Final = "argon2id"
SALT_BYTES: Final = 4

_DIGESTS: Final = {SHA256: "sha256", SHA512: "sha512", MD5: "md5"}


def is_fast(algorithm: str) -> bool:
    """One of RabbitMQ's, which this module verifies."""
    return algorithm in _DIGESTS


def encode(algorithm: str, salt: bytes, password: str) -> str:
    return b64encode(salt + _digest(algorithm, salt, password)).decode()


def verify(algorithm: str, password_hash: str, password: str) -> bool:
    """Takes as long for a wrong password as for the right one. An empty password is never right."""
    try:
        stored = b64decode(password_hash, validate=True)
    except (binascii.Error, ValueError):
        return False
    salt, expected = stored[:SALT_BYTES], stored[SALT_BYTES:]
    return password != "" and hmac.compare_digest(_digest(algorithm, salt, password), expected)


def refusal_of(algorithm: str, password_hash: str) -> str:
    """Why a stored hash cannot be one of this algorithm; empty when it can. An empty hash lets nobody log in."""
    if algorithm == ARGON2ID:
        return "" if not password_hash or password_hash.startswith("$argon2id$") else "not an argon2id hash"
    if algorithm not in _DIGESTS:
        return f"unknown hashing algorithm '{algorithm}'"
    try:
        b64decode(password_hash, validate=True)
    except (binascii.Error, ValueError):
        return "not base64"
    return ""


def _digest(algorithm: str, salt: bytes, password: str) -> bytes:
    data = salt + password.encode(errors="surrogateescape")
    return hashlib.new(_DIGESTS[algorithm], data, usedforsecurity=False).digest()
