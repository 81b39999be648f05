"""kill -9 under load, again and again on one data folder; then drain it and judge what happened.

    python -m tests.faults.kill9 --rounds 1000 --seed 1 [--break NAME] [--json FILE]

Now and then a round kills the broker while it recovers, stops it with SIGTERM, or pauses it first.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.faults.checker import Verdict, check
from tests.faults.history import History
from tests.faults.kill9_broker import Broker, DidNotBoot, Nursery
from tests.faults.kill9_client import Client, Gone
from tests.faults.kill9_load import DEAD_LETTERS, Load, declare_topology, drain
from tests.faults.kill9_sabotage import DISKS
from tests.faults.telling import tell_and_exit

# Rounds on one folder before it is drained and judged.
BLOCK: Final = 25
# Small, so that segments are filled, indexed, compacted and deleted in every block.
SEGMENT_BYTES: Final = 512 * 1024
OPTIONS: Final = ("--store-segment-bytes", str(SEGMENT_BYTES), "--disk-free-limit", "0", "--memory-high-watermark", "0")
COMPLAINTS: Final = ("Traceback", " ERROR ", " CRITICAL ")
# A kill in the middle of a write leaves these: nobody was promised anything that is in them.
HARMLESS: Final = re.compile(
    r"store: segment \d+ was (synced up to byte \d+; the rest|never synced and) is dropped"
    r"|store: \d+\.definitions was synced up to byte \d+; the rest is dropped"
)


@dataclass
class Report:
    seed: int
    rounds: int = 0
    kills: int = 0
    kills_in_recovery: int = 0
    terms: int = 0
    pauses: int = 0
    failed_boots: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    slowest_start: float = 0.0
    seconds: float = 0.0
    verdict: Verdict = field(default_factory=Verdict)

    def is_good(self) -> bool:
        return not self.failed_boots and not self.failures and self.verdict.is_good()

    def summary(self) -> dict[str, object]:
        own = {name: value for name, value in vars(self).items() if name != "verdict"}
        shown = {name: len(value) if isinstance(value, list) else value for name, value in own.items()}
        return {**shown, **self.verdict.summary()}

    def complaints(self) -> str:
        examples = {name: keys[:5] for name, keys in self.verdict.violations().items()}
        return f"seed {self.seed}: {examples} " + "\n".join(self.failures[:5] + self.failed_boots[:2])


class Rounds:
    """One data folder and what was done to it."""

    def __init__(self, nursery: Nursery, folder: Path, seed: int, report: Report, largest: int) -> None:
        self._nursery = nursery
        self._data_dir = folder / "data"
        self._rng = random.Random(seed)
        self._report = report
        self.history = History(seed)
        self.load = Load(self.history, largest)

    def run(self, rounds: int) -> None:
        for number in range(rounds):
            self._round(number)
            self._report.rounds += 1
        broker = self._start()
        drain(self.load, broker.port)
        broker.signal(signal.SIGTERM)
        self._expect(broker, 0)

    def output(self) -> str:
        """What the last broker printed."""
        path = self._data_dir.with_suffix(".out")
        return path.read_text()[-2000:] if path.exists() else ""

    def _start(self) -> Broker:
        broker = self._nursery.start(self._data_dir, *OPTIONS)
        try:
            broker.wait_ready()
        except DidNotBoot as error:
            self._report.failed_boots.append(str(error))
            broker.kill()
            raise
        self._report.slowest_start = max(self._report.slowest_start, time.monotonic() - broker.started)
        return broker

    def _round(self, number: int) -> None:
        rng = self._rng
        if number > 0 and rng.random() < 0.2:
            self._kill_in_recovery(rng.randint(1, 3))
        broker = self._start()
        if number == 0:
            with Client(broker.port) as client:
                declare_topology(client)
        self.load.start(broker.port, number, rng.getrandbits(32))
        time.sleep(rng.uniform(0.020, 0.250))
        chance = rng.random()
        if chance < 0.05:
            self._terminate(broker)
        else:
            if chance < 0.10:
                self._pause(broker)
            self._report.kills += 1
            self._note_output(broker, broker.kill(), -signal.SIGKILL)
        self.load.join()
        self.history.crash()
        self._report.failures += self.load.refusals
        self.load.refusals.clear()

    def _kill_in_recovery(self, times: int) -> None:
        """From the first instruction to just after it is ready."""
        for _ in range(times):
            broker = self._nursery.start(self._data_dir, *OPTIONS)
            time.sleep(self._rng.uniform(0, 0.060))
            self._report.kills_in_recovery += 1
            self._note_output(broker, broker.kill(), -signal.SIGKILL)

    def _pause(self, broker: Broker) -> None:
        self._report.pauses += 1
        broker.signal(signal.SIGSTOP)
        time.sleep(self._rng.uniform(0.05, 0.2))
        broker.signal(signal.SIGCONT)
        time.sleep(self._rng.uniform(0, 0.05))

    def _terminate(self, broker: Broker) -> None:
        self._report.terms += 1
        self.load.is_stopping = True
        broker.signal(signal.SIGTERM)
        self._expect(broker, 0)

    def _expect(self, broker: Broker, code: int) -> None:
        self._note_output(broker, broker.wait(), code)

    def _note_output(self, broker: Broker, code: int, expected: int) -> None:
        """A broker that is only killed has nothing to complain about."""
        text = broker.text()
        lines = [line for line in text.splitlines() if not HARMLESS.search(line)]
        if code != expected or any(word in line for line in lines for word in COMPLAINTS):
            self._report.failures.append(f"exit code {code}: {text[-1500:]}")


def run(
    rounds: int, seed: int, sabotage: str = "", *, block: int = BLOCK, largest: int = 1 << 20, keep: Path | None = None
) -> Report:
    report = Report(seed)
    begin = time.monotonic()
    with Nursery(sabotage) as nursery:
        while report.rounds < rounds and report.is_good():
            folder = Path(tempfile.mkdtemp(prefix="warren-kill9-"))
            one = Rounds(nursery, folder, seed + report.rounds, report, largest)
            try:
                one.run(min(block, rounds - report.rounds))
            except DidNotBoot:
                pass
            except (AssertionError, Gone) as error:
                report.failures.append(f"{type(error).__name__}: {error}\n{one.output()}")
            report.verdict.add(check(one.history, DEAD_LETTERS))
            report.seconds = time.monotonic() - begin
            if report.is_good() or keep is None:
                shutil.rmtree(folder)
            else:
                one.history.save(keep / f"history-{one.history.seed}.jsonl")
                shutil.move(folder, keep)
            _show_progress(report, rounds)
    return report


def _show_progress(report: Report, rounds: int) -> None:
    verdict = report.verdict
    text = (
        f"\rkill9: {report.rounds}/{rounds} rounds, {report.seconds:.0f} s, {verdict.confirmed} confirmed, "
        f"{len(verdict.lost)} lost, {len(verdict.resurrected)} resurrected, {len(verdict.unflagged)} unflagged, "
        f"{len(report.failed_boots)} failed boots"
    )
    if sys.stderr.isatty():
        sys.stderr.write(text)
    elif report.rounds % (BLOCK * 10) == 0 or report.rounds >= rounds:
        sys.stderr.write(text[1:] + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--break", dest="sabotage", default="", choices=["", *DISKS])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path, help="folder for the history and the data of what failed")
    arguments = parser.parse_args()
    report = run(arguments.rounds, arguments.seed, arguments.sabotage, keep=arguments.keep)
    tell_and_exit(report, arguments.json)


if __name__ == "__main__":
    main()
