"""librabbitmq through its command-line tools (Debian: amqp-tools), the oldest C client."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from warren import Broker

pytestmark = pytest.mark.skipif(shutil.which("amqp-publish") is None, reason="amqp-tools is not installed")


def run(broker: Broker, program: str, *arguments: str, given: bytes = b"") -> bytes:
    command = [program, f"--url={broker.url}", *arguments]
    return subprocess.run(command, input=given, capture_output=True, check=True, timeout=30).stdout


def test_what_is_published_is_got(warren_broker: Broker) -> None:
    assert run(warren_broker, "amqp-declare-queue", "--queue=q", "-d").strip() == b"q"
    run(warren_broker, "amqp-publish", "--routing-key=q", "--persistent", "--body=hello")
    assert run(warren_broker, "amqp-get", "--queue=q") == b"hello"
    run(warren_broker, "amqp-delete-queue", "--queue=q")
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run(warren_broker, "amqp-get", "--queue=q")
    assert b"NOT_FOUND - no queue 'q' in vhost '/'" in caught.value.stderr


def test_each_message_is_given_to_a_command(warren_broker: Broker) -> None:
    run(warren_broker, "amqp-declare-queue", "--queue=q")
    lines = [b"one\n", b"two\n", b"three\n"]
    run(warren_broker, "amqp-publish", "--routing-key=q", "--line-buffered", given=b"".join(lines))
    assert run(warren_broker, "amqp-consume", "--queue=q", "--count=3", "--prefetch-count=1", "cat") == b"".join(lines)


def test_a_large_message_comes_back_whole(warren_broker: Broker) -> None:
    body = bytes(range(256)) * 4096
    run(warren_broker, "amqp-declare-queue", "--queue=q")
    run(warren_broker, "amqp-publish", "--routing-key=q", given=body)
    assert run(warren_broker, "amqp-get", "--queue=q") == body
