"""Passwords: made slow, verified once, and never told apart by the clock."""

from __future__ import annotations

import time

import pytest

from warren.broker.rules import hashing
from warren.errors import WarrenError
from warren.server.passwords import REMEMBERED_MAX, Passwords


@pytest.fixture(scope="module")
def passwords() -> Passwords:
    return Passwords()


def seconds(passwords: Passwords, algorithm: str, stored: str, password: str) -> float:
    """Of the processor: what others do beside it says nothing of what a stranger can learn."""
    start = time.process_time()
    passwords.verify(algorithm, stored, password)
    return time.process_time() - start


def test_a_password_is_verified_against_its_hash(passwords: Passwords) -> None:
    algorithm, stored = passwords.hash("s3cret")
    assert algorithm == "argon2id"
    assert stored.startswith("$argon2id$")
    assert "s3cret" not in stored
    assert passwords.verify(algorithm, stored, "s3cret")
    assert not passwords.verify(algorithm, stored, "S3cret")


def test_two_hashes_of_one_password_differ(passwords: Passwords) -> None:
    assert passwords.hash("s3cret") != passwords.hash("s3cret")


def test_users_of_rabbitmq_log_in_with_their_hashes(passwords: Passwords) -> None:
    stored = hashing.encode(hashing.SHA256, b"salt", "pw")
    assert passwords.verify(hashing.SHA256, stored, "pw")
    assert not passwords.verify(hashing.SHA256, stored, "wrong")


@pytest.mark.parametrize("algorithm", [hashing.SHA256, hashing.SHA512])
def test_hashes_for_rabbitmq_can_be_made(algorithm: str) -> None:
    passwords = Passwords(algorithm)
    made, stored = passwords.hash("pw")
    assert made == algorithm
    assert hashing.verify(algorithm, stored, "pw")


def test_an_unknown_algorithm_is_refused() -> None:
    with pytest.raises(WarrenError, match="unknown password hashing algorithm 'rot13'"):
        Passwords("rot13")


def test_an_empty_password_is_refused(passwords: Passwords) -> None:
    with pytest.raises(WarrenError, match="must not be empty"):
        passwords.hash("")
    _, stored = passwords.hash("pw")
    assert not passwords.verify("argon2id", stored, "")
    assert not passwords.verify("argon2id", "", "")
    assert not passwords.verify(hashing.SHA256, hashing.encode(hashing.SHA256, b"salt", ""), "")


@pytest.mark.parametrize(
    ("algorithm", "stored"),
    [("", ""), ("argon2id", ""), ("argon2id", "$argon2id$nonsense"), ("rot13", "x"), (hashing.SHA256, "!!")],
)
def test_nobody_and_nonsense_are_refused(passwords: Passwords, algorithm: str, stored: str) -> None:
    assert not passwords.verify(algorithm, stored, "pw")


def test_the_second_login_is_free(passwords: Passwords) -> None:
    algorithm, stored = passwords.hash("again")
    first = seconds(passwords, algorithm, stored, "again")
    again = min(seconds(passwords, algorithm, stored, "again") for _ in range(20))
    assert again < first / 20


def test_what_is_remembered_can_be_asked_for_without_waiting(passwords: Passwords) -> None:
    algorithm, stored = passwords.hash("secret")
    assert not passwords.remembers(algorithm, stored, "secret")
    passwords.verify(algorithm, stored, "secret")
    assert passwords.remembers(algorithm, stored, "secret")
    assert not passwords.remembers(algorithm, stored, "other")


def test_a_wrong_password_is_never_remembered(passwords: Passwords) -> None:
    algorithm, stored = passwords.hash("right")
    assert passwords.verify(algorithm, stored, "right")
    for _ in range(3):
        assert not passwords.verify(algorithm, stored, "wrong")
        assert not passwords.verify(algorithm, passwords.hash("other")[1], "right")


def test_every_refusal_takes_as_long(passwords: Passwords) -> None:
    _, slow = passwords.hash("pw")
    fast = hashing.encode(hashing.SHA256, b"salt", "pw")
    passwords.verify("", "", "warm up")
    unknown = min(seconds(passwords, "", "", "wrong") for _ in range(5))
    of_rabbitmq = min(seconds(passwords, hashing.SHA256, fast, "wrong") for _ in range(5))
    own = min(seconds(passwords, "argon2id", slow, "wrong") for _ in range(5))
    # All three hash with argon2 once; without that the first two would be a thousand times faster.
    assert max(unknown, of_rabbitmq, own) < 4 * min(unknown, of_rabbitmq, own)


def test_what_is_remembered_is_bounded() -> None:
    passwords = Passwords()
    for number in range(REMEMBERED_MAX + 50):
        password = f"pw{number}"
        assert passwords.verify(hashing.SHA256, hashing.encode(hashing.SHA256, b"salt", password), password)
    assert len(passwords._verified) == REMEMBERED_MAX


def test_what_is_remembered_is_not_the_password() -> None:
    passwords = Passwords(hashing.SHA256)
    secret = "canary in the mine"
    algorithm, stored = passwords.hash(secret)
    assert passwords.verify(algorithm, stored, secret)
    assert len(passwords._verified) == 1
    assert secret not in repr(vars(passwords))
