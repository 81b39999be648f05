"""A sync that takes long: large messages stop their publisher at a bound of bytes, and go on when it is over. And one
that fails: for which reason, is told."""

from __future__ import annotations

import errno
import re
import threading
import time
from contextlib import suppress
from pathlib import Path

import pika
import pytest

from warren import Broker
from warren.broker.settings import MIB
from warren.server import life
from warren.store.disk import RealDisk

MESSAGES = 60
UNSYNCED_MAX = 4 * MIB


class SlowDisk:
    """A disk whose syncs wait while it is held."""

    def __init__(self, folder: Path, go_on: threading.Event) -> None:
        self._disk = RealDisk(folder)
        self._go_on = go_on
        self.failure: OSError | None = None
        for name in ("names", "create", "open", "close", "append", "read", "size", "truncate", "sync_directory"):
            setattr(self, name, getattr(self._disk, name))
        self.replace, self.remove = self._disk.replace, self._disk.remove

    def sync(self, handle: int) -> None:
        assert self._go_on.wait(60)
        if self.failure is not None:
            raise self.failure
        self._disk.sync(handle)


def publish_all(url: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        for _ in range(MESSAGES):
            channel.basic_publish("", "q", bytes(MIB), pika.BasicProperties(delivery_mode=2))


def test_large_messages_that_wait_for_the_disk_stop_their_publisher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    go_on.set()
    monkeypatch.setattr(life, "RealDisk", lambda folder: SlowDisk(folder, go_on))
    with Broker(data_dir=str(tmp_path), unsynced_max=UNSYNCED_MAX) as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            connection.channel().queue_declare("q", durable=True)
            go_on.clear()
            publisher = threading.Thread(target=publish_all, args=(broker.url,))
            publisher.start()
            deadline = time.monotonic() + 30
            while "flow" not in broker.call(lambda node: [each.state for each in node.connections.values()]):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            taken = broker.call(lambda node: int(node.vhosts["/"].queues["q"].backing.length))
            assert UNSYNCED_MAX // MIB <= taken <= 2 * UNSYNCED_MAX // MIB + 2
            go_on.set()
            publisher.join(60)
        assert broker.call(lambda node: int(node.vhosts["/"].queues["q"].backing.length)) == MESSAGES


@pytest.mark.parametrize(
    ("number", "told"),
    [(errno.EMFILE, r"no file descriptor is left of \d+, so"), (errno.EIO, r"the data folder failed, so")],
)
def test_what_stops_the_broker_is_told_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int, told: str
) -> None:
    go_on = threading.Event()
    go_on.set()
    disks: list[SlowDisk] = []

    def make(folder: Path) -> SlowDisk:
        disks.append(SlowDisk(folder, go_on))
        return disks[-1]

    monkeypatch.setattr(life, "RealDisk", make)
    with Broker(data_dir=str(tmp_path)) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        disks[0].failure = OSError(number, "it is a test")
        channel.basic_publish("", "q", b"m", pika.BasicProperties(delivery_mode=2))
        deadline = time.monotonic() + 30
        while not re.search(told, caplog.text):
            assert time.monotonic() < deadline, caplog.text
            time.sleep(0.01)
    with suppress(pika.exceptions.AMQPError):
        connection.process_data_events(1)
