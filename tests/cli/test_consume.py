"""`warren consume` takes what it prints and nothing else, however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from tests.cli.serving import PATIENCE, environment, run_warren
from warren import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(http=True) as running:
        yield running


@pytest.fixture
def url(broker: Broker) -> Iterator[str]:
    fill(broker, 0)
    yield broker.http_url.replace("http://", "http://guest:guest@")
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        connection.channel().queue_delete("q")


def fill(broker: Broker, count: int, size: int = 0) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        for number in range(count):
            channel.basic_publish("", "q", str(number).encode().ljust(size))


def wait_unheld(broker: Broker) -> None:
    deadline = time.monotonic() + PATIENCE
    while broker.call(lambda node: int(node.vhosts["/"].queues["q"].unacked)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def left(broker: Broker) -> list[tuple[bytes, bool]]:
    """What is in the queue, once nobody holds any of it, and whether it was handed out before."""
    wait_unheld(broker)
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        found = []
        while (answer := channel.basic_get("q", auto_ack=True))[0] is not None:
            found.append((answer[2].strip(), answer[0].redelivered))
        return found


def consuming(url: str, *arguments: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "warren", "consume", "q", *arguments]
    return subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, env=environment(WARREN_URL=url))


@pytest.mark.parametrize("count", [7, 100, 150])
def test_no_more_are_taken_than_are_printed(broker: Broker, url: str, count: int) -> None:
    fill(broker, 210)
    printed = run_warren("consume", "q", "--count", str(count), "--raw", WARREN_URL=url).stdout.split()
    assert printed == [str(number) for number in range(count)]
    assert left(broker) == [(str(number).encode(), False) for number in range(count, 210)]


def test_a_message_is_shown_with_all_that_belongs_to_it(broker: Broker, url: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        properties = pika.BasicProperties(message_id="m", priority=3, headers={"a": [1, "x"]})
        connection.channel().basic_publish("", "q", b"\xff\x00", properties)
        connection.channel().basic_publish("", "q", "žluť".encode())
        connection.channel().basic_publish("", "q", b"x" * 300_000)
    lines = run_warren("consume", "q", "--count", "3", "--uri", broker.url).stdout.splitlines()
    first, second, third = [json.loads(line) for line in lines]
    assert first == {
        "payload_bytes": 2,
        "redelivered": False,
        "exchange": "",
        "routing_key": "q",
        "properties": {"message_id": "m", "priority": 3, "headers": {"a": [1, "x"]}},
        "payload": "/wA=",
        "payload_encoding": "base64",
    }
    assert (second["payload"], third["payload_bytes"], len(third["payload"])) == ("žluť", 300_000, 300_000)


def test_what_was_not_printed_when_it_was_killed_comes_again(broker: Broker, url: str) -> None:
    """Nobody reads what it prints, so it stands still with most of its messages in hand."""
    fill(broker, 100, size=10_000)
    process = consuming(url, "--raw")
    assert process.stdout is not None
    first = process.stdout.readline()
    process.kill()
    process.communicate(timeout=PATIENCE)
    assert first.strip() == b"0"
    assert {body for body, _ in left(broker)} >= {str(number).encode() for number in range(20, 100)}


def test_ctrl_c_leaves_nothing_half_done(broker: Broker, url: str) -> None:
    fill(broker, 3)
    process = consuming(url, "--raw")
    assert process.stdout is not None
    printed = [process.stdout.readline().strip() for _ in range(3)]
    wait_unheld(broker)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert printed == [b"0", b"1", b"2"]
    assert b"Traceback" not in errors
    assert left(broker) == []


def test_a_reader_that_has_enough_ends_it_quietly(broker: Broker, url: str) -> None:
    fill(broker, 50, size=10_000)
    reading, writing = os.pipe()
    process = consuming(url, "--raw", stdout=writing)
    os.close(writing)
    assert os.read(reading, 10) == b"0".ljust(10)
    os.close(reading)
    _, errors = process.communicate(timeout=PATIENCE)
    assert errors == b""
    assert len(left(broker)) > 0


def test_mistakes_are_one_line(broker: Broker, url: str, tmp_path: Path) -> None:
    missing = run_warren("consume", "nowhere", WARREN_URL=url)
    assert missing.returncode == 1
    assert missing.stderr.count("\n") == 1
    assert "no queue 'nowhere' in vhost '/'" in missing.stderr
    refused = run_warren("consume", "q", "--uri", broker.url.replace("guest@", "wrong@"))
    assert refused.returncode == 1
    assert "ACCESS_REFUSED" in refused.stderr


def test_a_queue_that_goes_away_ends_it(broker: Broker, url: str) -> None:
    fill(broker, 1)
    process = consuming(url, "--raw")
    assert process.stdout is not None
    assert process.stdout.readline() == b"0\n"
    broker.call(lambda node: node.vhosts["/"].delete_queue(node.vhosts["/"].queues["q"]))
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert b"queue 'q' is gone" in errors
