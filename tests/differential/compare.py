"""Sets two recordings side by side, the reviewed differences taken into account."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from tests.differential.differences import DIFFERENCES, RULES, Difference
from tests.differential.recording import Recording


def expected(session: str, rabbitmq: Recording) -> Recording:
    """What Warren should answer, given what RabbitMQ answered."""
    recording = by_rules(session, rabbitmq)
    for difference in DIFFERENCES:
        if difference.session == session:
            _apply(difference, recording)
    return {stream: lines for stream, lines in recording.items() if lines}


def by_rules(session: str, recording: Recording) -> Recording:
    for rule in RULES:
        recording = {stream: [rule.applied_to(session, line) for line in lines] for stream, lines in recording.items()}
    return recording


def _apply(difference: Difference, recording: Recording) -> None:
    lines = recording.setdefault(difference.stream, [])
    place = find(difference.rabbitmq, lines)
    # An entry that does not fit changes nothing here and fails the test of its own.
    if place is not None:
        lines[place : place + len(difference.rabbitmq)] = difference.warren


def find(part: Sequence[str], lines: Sequence[str]) -> int | None:
    """Where the part begins; nothing is found at the end."""
    if not part:
        return len(lines)
    for place in range(len(lines) - len(part) + 1):
        if list(lines[place : place + len(part)]) == list(part):
            return place
    return None


def report(session: str, wanted: Recording, found: Recording) -> str:
    """The lines that differ, marked - for RabbitMQ's and + for Warren's."""
    lines = [session]
    for stream in sorted(wanted.keys() | found.keys()):
        before, after = wanted.get(stream, []), found.get(stream, [])
        if before != after:
            lines += [f"  {stream}", *(f"    {line}" for line in difflib.ndiff(before, after) if line[0] != "?")]
    return "\n".join(lines)
