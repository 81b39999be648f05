"""A broker that kills itself with SIGKILL while it archives: `python -m tests.spark.archive_crash DATA POINT`.

It publishes to the archived stream `orders` until the point is reached: `unfinished`, with the file not yet under its
name; `renamed`, before the name is durable; `archived`, before retention hears of it and deletes anything. Confirmed
messages are counted on standard output.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import pika

from warren import Broker
from warren.spark.archives import write
from warren.spark.archives.files import UNFINISHED, make_durable

# Files that come through before the point counts: a crash should find an archive that is used already.
SPARED = 3
ARGUMENTS = {
    "x-queue-type": "stream",
    "x-stream-max-segment-size-bytes": 20_000,
    "x-max-length-bytes": 60_000,
    "x-archive": True,
}


def main(data: str, point: str) -> None:
    arm(point)
    with Broker(data_dir=data) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True, arguments=ARGUMENTS)
        number = 0
        while True:
            channel.basic_publish("", "orders", b"%d %s" % (number, b"x" * 500))
            number += 1
            os.write(1, b"%d\n" % number)


def arm(point: str) -> None:
    """From now on the process dies there."""
    if point == "unfinished":
        os.rename = dying_before(os.rename, lambda path: UNFINISHED in str(path))
    elif point == "renamed":
        setattr(write, "make_durable", dying_before(make_durable, lambda path: True))  # noqa: B010
    elif point == "archived":
        write.write_segment = dying_after(write.write_segment)
    else:
        raise SystemExit(f"no such point: {point}")


class Fuse:
    def __init__(self) -> None:
        self._left = SPARED

    def burn(self) -> None:
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1


def dying_before(function: Callable[..., None], is_meant: Callable[[object], bool]) -> Callable[..., None]:
    fuse = Fuse()

    def call(*arguments: object) -> None:
        if is_meant(arguments[0]):
            fuse.burn()
        function(*arguments)

    return call


def dying_after(function: Callable[..., None]) -> Callable[..., None]:
    fuse = Fuse()

    def call(*arguments: object) -> None:
        function(*arguments)
        fuse.burn()

    return call


if __name__ == "__main__":
    main(*sys.argv[1:])
