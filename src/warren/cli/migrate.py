"""`warren migrate`: everything from a RabbitMQ to here, definitions first, then the messages."""

from __future__ import annotations

import json
import secrets
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Final
from urllib.parse import urlsplit

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from warren.cli.consume import target_of
from warren.cli.options import uri_option, url_option
from warren.cli.output import json_option, show_rows
from warren.client.address import BrokerAddress, parse_uri
from warren.client.api import Api
from warren.errors import WarrenError
from warren.migrate.ledger import PREFIX, Ledger
from warren.migrate.move import Checked, Mover, QueueMover, StreamMover
from warren.migrate.source import OldBroker

# Who publishes here: with a tag that lets messages keep the name of their publisher, and gone at the end.
USER: Final = "warren-migrate"
# For the source to put back what a killed run held: it hears of the end of the connection at once, but not all of it
# does everything at once.
SETTLE_SECONDS: Final = 1.0
# Between looks at queues that are all empty.
LIVE_SECONDS: Final = 0.2


@click.command()
@click.argument("source", metavar="AMQP_URI")
@click.option("--api", required=True, help="Management API of the same RabbitMQ, with user and password.")
@click.option(
    "--queues",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    help="Only messages of these; * and ? stand for others. May be repeated.",
)
@click.option("--live", is_flag=True, help="Go on with what is published there, until Ctrl-C.")
@uri_option("AMQP address of Warren; else --url says it.")
@json_option
@url_option
def migrate(
    source: str, api: str, patterns: tuple[str, ...], live: bool, broker: str | None, as_json: bool, url: str
) -> None:
    """Move from the RabbitMQ at AMQP_URI: its definitions, then the messages of its queues, in order, as they are.

    Messages are taken from RabbitMQ only when they are on Warren's disk. Killed or stopped, the same command goes on
    where it was: nothing is lost, and nothing is there twice. Consumers must have moved before, publishers move while
    --live runs; then Ctrl-C. A virtual host in the address limits it to that one.

    Streams are copied: the source keeps what it has.
    """
    started = time.monotonic()
    plan = Migration(source, Api(api), Api(url), url, broker, patterns)
    plan.bring_definitions()
    try:
        checked = plan.move(live, as_json)
    finally:
        plan.end()
    moved = sum(each.moved for each in checked)
    seconds = round(time.monotonic() - started, 3)
    # While it went on, others were allowed to publish and to consume.
    wrong = [] if live else [each for each in checked if not each.is_right]
    if as_json:
        rows = [asdict(each) for each in checked]
        click.echo(json.dumps({"moved": moved, "seconds": seconds, "verified": not wrong, "queues": rows}))
    else:
        click.echo(f"{moved:,} messages of {len(checked):,} queues moved in {seconds:.1f} s")
    if wrong:
        if not as_json:
            show_rows([asdict(each) for each in wrong], list(asdict(wrong[0])), False)
        raise WarrenError(
            f"the counts of {len(wrong)} queues differ: "
            "somebody publishes or consumes, or limits or expiry took messages"
        )


@dataclass
class Migration:
    source: str
    there: Api
    here: Api
    url: str
    broker: str | None
    patterns: tuple[str, ...]

    def __post_init__(self) -> None:
        self._password = secrets.token_hex(16)
        self._from = parse_uri(self.source)
        self._only = self._from.vhost if urlsplit(self.source).path[1:] else None
        self._ends: dict[str, tuple[OldBroker, Ledger]] = {}

    def bring_definitions(self) -> None:
        if self._only is not None:
            self.here.put("vhosts", self._only, body={})
            self.here.post("definitions", self._only, body=self.there.get("definitions", self._only))
            return
        definitions = self.there.get("definitions")
        # Those who are here keep their passwords, the one who asks for this among them.
        known = {user["name"] for user in self.here.get("users")}
        definitions["users"] = [user for user in definitions["users"] if user["name"] not in known]
        self.here.post("definitions", body=definitions)

    def move(self, live: bool, as_json: bool) -> list[Checked]:
        queues = self._queues()
        self._add_user({queue["vhost"] for queue in queues})
        movers = self._movers(queues)
        if any(mover.is_resumed for mover in movers):
            time.sleep(SETTLE_SECONDS)
        is_over = _ask_for_the_end() if live else None
        console = Console(stderr=True)
        columns = (
            TextColumn("moving"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("messages"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console, disable=as_json or not console.is_terminal, transient=True) as bar:
            total = sum(mover.standing.moved + mover.waiting for mover in movers)
            task = bar.add_task("moving", total=total)
            move_all(movers, is_over, lambda: bar.update(task, completed=sum(each.standing.moved for each in movers)))
        checked = [mover.check() for mover in movers]
        for mover in movers:
            mover.finish()
        return checked

    def _queues(self) -> list[dict[str, Any]]:
        found = []
        for queue in self.there.get("queues", *([] if self._only is None else [self._only])):
            if queue.get("exclusive") or queue.get("owner_pid_details") or queue["name"].startswith(PREFIX):
                continue
            if self.patterns and not any(fnmatchcase(queue["name"], pattern) for pattern in self.patterns):
                continue
            found.append(queue)
        return found

    def _movers(self, queues: list[dict[str, Any]]) -> list[Mover]:
        movers: list[Mover] = []
        for queue in queues:
            vhost = queue["vhost"]
            if vhost not in self._ends:
                self._ends[vhost] = OldBroker(replace(self._from, vhost=vhost)), Ledger(self._target(vhost))
            if queue.get("type") == "stream":
                movers.append(StreamMover(*self._ends[vhost], queue["name"]))
                continue
            average = queue.get("message_bytes", 0) // max(1, queue.get("messages", 0))
            movers.append(QueueMover(*self._ends[vhost], queue["name"], average))
        return movers

    def _target(self, vhost: str) -> BrokerAddress:
        target = parse_uri(self.broker) if self.broker else target_of(self.url, vhost)
        return replace(target, vhost=vhost, user=USER, password=self._password)

    def _add_user(self, vhosts: set[str]) -> None:
        self.here.put("users", USER, body={"password": self._password, "tags": "impersonator"})
        for vhost in vhosts:
            self.here.put("permissions", vhost, USER, body={"configure": ".*", "write": ".*", "read": ".*"})

    def end(self) -> None:
        for source, ledger in self._ends.values():
            source.leave()
            ledger.leave()
        self.here.delete("users", USER)


def move_all(movers: list[Mover], is_over: threading.Event | None, show: Callable[[], None]) -> None:
    """One after the other until each is empty; with an event, in turns until that is set."""
    if is_over is None:
        for mover in movers:
            while mover.step():
                show()
        return
    while not is_over.is_set():
        moved = 0
        for mover in movers:
            moved += mover.step()
            show()
        if not moved:
            is_over.wait(LIVE_SECONDS)


def _ask_for_the_end() -> threading.Event:
    asked = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked.set())
    return asked
