"""Warren answers every session as RabbitMQ did when it was recorded, but for the reviewed differences; and where long
tests are run, that RabbitMQ answers as it did."""

from __future__ import annotations

import pytest

from tests.differential import archive, compare, rabbitmq, runner, sessions, wire
from tests.differential.differences import DIFFERENCES, MISSING, RULES, Difference, Missing, Rule
from tests.differential.recording import Recording
from tests.differential.session import SESSIONS

sessions.load()

# The first test that runs waits for all sessions.
pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("name", SESSIONS)
def test_warren_answers_as_rabbitmq(name: str, played: dict[str, Recording]) -> None:
    wanted = compare.expected(name, archive.load()[name])
    found = played[name]
    missing = [entry.reason for entry in MISSING if entry.covers(name)]
    if found != wanted and not missing:
        pytest.fail(f"- RabbitMQ, + Warren\n{compare.report(name, wanted, found)}", pytrace=False)


@pytest.mark.long
def test_the_kept_recording_of_rabbitmq_is_current() -> None:
    version = rabbitmq.installed_version()
    if not version:
        pytest.skip("rabbitmq-server is not installed")
    if version != archive.VERSION:
        pytest.skip(f"rabbitmq-server is {version}, the sessions were reviewed with {archive.VERSION}")
    with rabbitmq.start() as broker:
        played = runner.play(broker)
    kept = archive.load()
    stale = [name for name, recording in played.items() if recording != kept.get(name)]
    if stale:
        reports = [compare.report(name, kept.get(name, {}), played[name]) for name in stale]
        pytest.fail("\n".join(["- kept, + played", *reports]), pytrace=False)


@pytest.mark.parametrize(
    ("name", "difference"),
    [pytest.param(entry.session, entry, id=f"{entry.session}, {entry.stream}") for entry in DIFFERENCES],
)
def test_a_listed_difference_still_occurs(name: str, difference: Difference, played: dict[str, Recording]) -> None:
    theirs = compare.by_rules(name, archive.load()[name]).get(difference.stream, [])
    ours = played[name].get(difference.stream, [])
    if theirs == ours:
        pytest.fail(f"both answer alike, the entry can go: {difference.reason}", pytrace=False)
    for broker, lines, part in (("RabbitMQ", theirs, difference.rabbitmq), ("Warren", ours, difference.warren)):
        if compare.find(part, lines) is None:
            answers = "\n    ".join(["listed:", *part, "answered:", *lines])
            pytest.fail(f"{broker} does not answer as listed: {difference.reason}\n    {answers}", pytrace=False)


@pytest.mark.parametrize("rule", RULES, ids=[f"{rule.reason}, {rule.sessions}" for rule in RULES])
def test_a_listed_rule_still_occurs(rule: Rule, played: dict[str, Recording]) -> None:
    """Some line of RabbitMQ's falls under it, and none of them stands in Warren's answers as it is."""
    changed = [
        (name, line)
        for name, recording in archive.load().items()
        for line in _lines(recording)
        if rule.applied_to(name, line) != line
    ]
    assert changed
    assert [(name, line) for name, line in changed if line in _lines(played.get(name, {}))] == []


@pytest.mark.parametrize("entry", MISSING, ids=[entry.sessions for entry in MISSING])
def test_what_is_listed_as_missing_is_missing(entry: Missing, played: dict[str, Recording]) -> None:
    covered = [name for name in SESSIONS if entry.covers(name)]
    alike = [name for name in covered if played[name] == compare.expected(name, archive.load()[name])]
    assert covered
    # Some refusals are the same with and without the feature; once most answers are, the entry has to go.
    assert len(alike) * 2 < len(covered), alike


def test_the_kept_recording_has_every_session_and_no_other() -> None:
    assert archive.load().keys() == SESSIONS.keys()


def test_every_session_named_by_a_difference_exists() -> None:
    assert {difference.session for difference in DIFFERENCES} <= SESSIONS.keys()


def test_every_method_that_a_server_sends_is_received_somewhere() -> None:
    received = {line.split(" ")[0] for recording in archive.load().values() for line in _lines(recording)}
    replies = {reply for spec in wire.METHODS.values() for reply in spec.replies}
    unasked = {
        "connection.start", "connection.tune", "connection.close", "connection.blocked", "connection.unblocked",
        "channel.close", "basic.cancel", "basic.deliver", "basic.return", "confirms:",
    }  # fmt: skip
    by_the_client = {"connection.start-ok", "connection.tune-ok", "connection.secure-ok"}
    assert (replies | unasked) - by_the_client - received == set()


def _lines(recording: Recording) -> list[str]:
    return [line for lines in recording.values() for line in lines]
