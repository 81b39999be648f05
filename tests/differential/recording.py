"""What a session saw, as lines of text that are equal for two brokers which behave the same.

Replaced: names that the server makes up, the run's own name prefix, times, process ids and the server's product,
version and place. Confirms that follow one another become one line, since how they are grouped is left to the server.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Final

from tests.differential.client import Connection, Event, confirmed_by

# "connection 1, channel 0" -> lines
Recording = dict[str, list[str]]

_MADE_UP: Final = (
    ("amq.gen", re.compile(r"amq\.gen-[A-Za-z0-9_-]{22}")),
    ("amq.ctag", re.compile(r"amq\.ctag-[A-Za-z0-9_-]{22}")),
    ("amq.rabbitmq.reply-to", re.compile(r"amq\.rabbitmq\.reply-to\.(?!missing)[A-Za-z0-9_=/+.@-]+")),
)
_TIME: Final = re.compile(r"\bT:1[6-9]\d{8}\b|\bT:2\d{9}\b")
_PID: Final = re.compile(r"<\d+\.\d+\.\d+>")
# Which of its two reasons RabbitMQ tells first when a vhost is deleted is a race.
_VHOST_DOWN: Final = re.compile(r"(CONNECTION_FORCED - vhost '\w+') is down")
_LONG_BODY: Final = 100


def record(connections: list[Connection], prefix: str) -> Recording:
    lines: Recording = {}
    for number, connection in enumerate(connections, 1):
        for channel in sorted(connection.events):
            shown = list(_show_all(connection.events[channel]))
            if shown:
                lines[f"connection {number}, channel {channel}"] = shown
    return _Normaliser(prefix).recording(lines)


def _show_all(events: list[Event]) -> Iterable[str]:
    settled: set[int] = set()
    acks: set[int] = set()
    nacks: set[int] = set()
    for event in [*events, Event("end")]:
        if event.name in ("basic.ack", "basic.nack"):
            tags = confirmed_by(event) - settled
            (acks if event.name == "basic.ack" else nacks).update(tags)
            settled |= tags
            continue
        if acks or nacks:
            yield f"confirms: acked [{_ranges(acks)}], nacked [{_ranges(nacks)}]"
            acks, nacks = set(), set()
        if event.name != "end":
            yield show(event)


def _ranges(tags: set[int]) -> str:
    """1-3, 5 for {1, 2, 3, 5}."""
    parts: list[list[int]] = []
    for tag in sorted(tags):
        if parts and tag == parts[-1][-1] + 1:
            parts[-1].append(tag)
        else:
            parts.append([tag])
    return ", ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)


def show(event: Event) -> str:
    if event.name == "connection.start":
        return _show_start(event)
    parts = [event.name, *(f"{name}={value!r}" for name, value in event.fields.items())]
    line = " ".join(parts)
    if event.properties is None:
        return line
    properties = " ".join(f"{name}={value!r}" for name, value in event.properties.items())
    return f"{line} | {properties} | {_show_body(event.body)}"


def _show_body(body: bytes) -> str:
    if len(body) <= _LONG_BODY:
        return repr(body)
    return f"{len(body)} bytes, sha1 {hashlib.sha1(body).hexdigest()[:8]}"


def _show_start(event: Event) -> str:
    """server_properties name the product and the machine: the names of the fields are kept, and the capabilities."""
    properties = event.text("server_properties")
    capabilities = re.search(r"capabilities=F:\{(.*?)\}", properties)
    shown = sorted(capabilities.group(1).split(", ")) if capabilities else []
    names = sorted(re.findall(r"(?:^\{|, )(\w+)=", re.sub(r"F:\{.*?\}", "", properties)))
    rest = " ".join(f"{name}={value!r}" for name, value in event.fields.items() if name != "server_properties")
    return f"connection.start {rest} server_properties={names} capabilities={shown}"


class _Normaliser:
    """Numbers made-up names in the order of their appearance in one session."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._seen: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def recording(self, lines: Recording) -> Recording:
        return {stream: [self._line(line) for line in shown] for stream, shown in lines.items()}

    def _line(self, line: str) -> str:
        line = line.replace(self._prefix, "")
        for kind, pattern in _MADE_UP:
            line = pattern.sub(lambda match, kind=kind: self._stand_in(kind, match.group()), line)  # type: ignore[misc]
        return _VHOST_DOWN.sub(r"\1 is deleted", _PID.sub("<pid>", _TIME.sub("T:<now>", line)))

    def _stand_in(self, kind: str, name: str) -> str:
        if name not in self._seen:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._seen[name] = f"{kind}-<{self._counts[kind]}>"
        return self._seen[name]
