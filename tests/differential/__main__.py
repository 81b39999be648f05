"""Records the sessions of one broker, or compares what was recorded."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from urllib.parse import urlsplit

from tests.differential import archive, compare, rabbitmq, runner, sessions
from tests.differential.brokers import Address, Broker, HttpAdmin
from tests.differential.recording import Recording
from tests.differential.session import SESSIONS


def main() -> int:
    options = _options()
    sessions.load()
    names = [name for name in SESSIONS if options.only in name]
    started = time.monotonic()
    with _broker(options) as broker:
        recordings = runner.play(broker, names)
    sys.stderr.write(f"{len(recordings)} sessions in {time.monotonic() - started:.1f} s\n")
    if options.record:
        archive.save(recordings, Path(options.record))
    if options.show:
        for name, recording in recordings.items():
            sys.stdout.write(compare.report(name, {}, recording) + "\n")
    if not options.compare:
        return 0
    return _compare(recordings, archive.load(Path(options.compare)))


def _compare(recordings: dict[str, Recording], reference: dict[str, Recording]) -> int:
    unequal = 0
    for name, recording in recordings.items():
        wanted = compare.expected(name, reference.get(name, {}))
        if wanted != recording:
            unequal += 1
            sys.stdout.write(compare.report(name, wanted, recording) + "\n")
    sys.stdout.write(f"{unequal} of {len(recordings)} sessions differ\n")
    return 1 if unequal else 0


def _broker(options: argparse.Namespace) -> AbstractContextManager[Broker]:
    if options.uri == "rabbitmq":
        return rabbitmq.start()
    if options.uri == "warren":
        # Imported here: recording another broker must not need a Warren that starts.
        from tests.differential import warren_node

        return warren_node.start()
    uri = urlsplit(options.uri)
    host, port = uri.hostname or "127.0.0.1", uri.port or 5672
    admin = HttpAdmin(options.http or f"http://{host}:15672")
    return nullcontext(Broker(options.uri, Address(host, port), admin))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    what = "amqp://HOST:PORT of a broker with guest/guest, or rabbitmq or warren to start one"
    parser.add_argument("--uri", default="warren", help=what)
    parser.add_argument("--http", help="the broker's management API, http://HOST:15672 by default")
    parser.add_argument("--only", default="", help="only sessions whose name has this text")
    parser.add_argument("--record", metavar="FILE", help="write the recording here")
    parser.add_argument("--compare", metavar="FILE", nargs="?", const=str(archive.FILE), help="compare with this one")
    parser.add_argument("--show", action="store_true", help="print the recording")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
