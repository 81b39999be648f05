"""The first words between nodes: each proves that it knows the cluster's secret before the other says anything else.

caller    "WARRENRP" version(1) purpose(1) uuid: short string  nonce(32)
answerer  nonce(32) proof(32)
caller    proof(32), then what it is for
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from typing import Final

MAGIC: Final = b"WARRENRP"
# Of what nodes say to each other. It grows at most once in a minor release, and a node also speaks the one before its
# own, so that nodes can be upgraded one after another.
VERSION: Final = 2
NONCE: Final = 32
PROOF: Final = 32
# What a caller wants: to follow, or to pass on a client of its own, which may have come by TLS.
FOLLOW: Final = 1
CLIENT: Final = 2
SECURE_CLIENT: Final = 3


class Stranger(Exception):
    """Not one of us, or of a version that we do not know."""


@dataclass(frozen=True)
class Whereabouts:
    """Of the leader, as etcd knows them."""

    process: str
    replication: tuple[str, int]
    http: str
    # The version of this protocol, and whether over TLS.
    speaks: int
    has_tls: bool

    @property
    def knows_moments(self) -> bool:
        return self.speaks >= 2

    def obstacle(self, has_tls: bool) -> str:
        """Why a node cannot follow it; empty when it can."""
        if self.has_tls != has_tls:
            with_it, without = ("the leader", "this node") if self.has_tls else ("this node", "the leader")
            return f"{with_it} speaks TLS and {without} does not: all nodes need cluster_cert, or none"
        if abs(self.speaks - VERSION) > 1:
            return "the leader's release is too far from this one: upgrade by one minor release at a time"
        return ""


@dataclass(frozen=True)
class Greeting:
    purpose: int
    uuid: str
    nonce: bytes
    version: int

    @staticmethod
    def new(purpose: int, uuid: str, answerers_version: int) -> Greeting:
        return Greeting(purpose, uuid, secrets.token_bytes(NONCE), min(VERSION, answerers_version))

    def encode(self) -> bytes:
        name = self.uuid.encode()
        return MAGIC + bytes([self.version, self.purpose, len(name)]) + name + self.nonce

    @staticmethod
    def size(data: bytes) -> int:
        """How long it will be, as far as that is known; raises Stranger when it is none."""
        if not MAGIC.startswith(data[: len(MAGIC)]):
            raise Stranger("no greeting of a node")
        if len(data) < len(MAGIC) + 3:
            return len(MAGIC) + 3
        if not VERSION - 1 <= data[len(MAGIC)] <= VERSION:
            raise Stranger(f"a node of version {data[len(MAGIC)]}, and this one speaks {VERSION}")
        return len(MAGIC) + 3 + data[len(MAGIC) + 2] + NONCE

    @staticmethod
    def decode(data: bytes) -> Greeting:
        at = len(MAGIC) + 3
        end = at + data[at - 1]
        return Greeting(data[len(MAGIC) + 1], data[at:end].decode(), data[end : end + NONCE], version=data[len(MAGIC)])


def proof(secret: str, who: bytes, greeting: Greeting, nonce: bytes) -> bytes:
    """Of the answerer or of the caller; neither serves for the other."""
    return hmac.digest(secret.encode(), who + greeting.encode() + nonce, "sha256")


def is_proof(given: bytes, secret: str, who: bytes, greeting: Greeting, nonce: bytes) -> bool:
    return hmac.compare_digest(given, proof(secret, who, greeting, nonce))


def callers_proof(secret: str, greeting: Greeting, answer: bytes) -> bytes:
    """What a caller says once the answerer, by its nonce and proof, has shown that it knows the secret."""
    nonce, given = answer[:NONCE], answer[NONCE:]
    if not is_proof(given, secret, b"answerer", greeting, nonce):
        raise Stranger("whoever answers does not know the cluster's secret")
    return proof(secret, b"caller", greeting, nonce)
