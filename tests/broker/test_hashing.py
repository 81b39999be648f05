"""RabbitMQ's password hashes, checked against one that RabbitMQ made."""

from __future__ import annotations

import pytest

from warren.broker.rules.hashing import ARGON2ID, MD5, SHA256, SHA512, encode, is_fast, refusal_of, verify

# RabbitMQ 3.10.8's own, of the password "pw".
MADE_BY_RABBITMQ = "F3z8sKYtEdm91HOExbTLTnemgQMQf7+BCm9iIxVxpnNPMGgf"
# From RabbitMQ's documentation on passwords: salt 908DC60A, password "test12".
DOCUMENTED = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"


def test_hashes_of_rabbitmq_are_verified() -> None:
    assert verify(SHA256, MADE_BY_RABBITMQ, "pw")
    assert not verify(SHA256, MADE_BY_RABBITMQ, "PW")
    assert verify(SHA256, DOCUMENTED, "test12")


def test_hashes_are_made_as_rabbitmq_makes_them() -> None:
    assert encode(SHA256, bytes.fromhex("908DC60A"), "test12") == DOCUMENTED


@pytest.mark.parametrize("algorithm", [SHA256, SHA512, MD5])
def test_every_algorithm_verifies_its_own(algorithm: str) -> None:
    stored = encode(algorithm, b"salt", "pässword")
    assert verify(algorithm, stored, "pässword")
    assert not verify(algorithm, stored, "password")
    assert is_fast(algorithm)
    assert refusal_of(algorithm, stored) == ""


@pytest.mark.parametrize("stored", ["", "AAAA", "!!", "not base64", encode(SHA256, b"salt", "")])
def test_nobody_logs_in_with_an_empty_password(stored: str) -> None:
    assert not verify(SHA256, stored, "")


@pytest.mark.parametrize("stored", ["", "AAAA", "!!", "ünicode"])
def test_what_is_no_hash_matches_nothing(stored: str) -> None:
    assert not verify(SHA256, stored, "pw")


@pytest.mark.parametrize(
    ("algorithm", "stored", "refusal"),
    [
        (SHA256, "!!", "not base64"),
        (SHA256, "", ""),
        (SHA256, "AAAA", ""),
        ("rot13", "AAAA", "unknown hashing algorithm 'rot13'"),
        ("", "AAAA", "unknown hashing algorithm ''"),
        (ARGON2ID, "AAAA", "not an argon2id hash"),
        (ARGON2ID, "$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA", ""),
    ],
)
def test_a_stored_hash_is_looked_at_before_it_is_taken(algorithm: str, stored: str, refusal: str) -> None:
    assert refusal_of(algorithm, stored) == refusal
