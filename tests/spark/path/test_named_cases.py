"""Thirty small stories with their endings, each told by the live broker, by the path, and in batches of one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.spark.path.building import binding, definitions, exchange, policy, queue, send, topic_permission, user
from tests.spark.path.equality import difference, live_outcome, path_outcome, streamed_outcome
from tests.spark.path.outcome import Outcome
from tests.spark.path.traffic import MAX_MESSAGE_SIZE, START, Sent


@dataclass
class Story:
    name: str
    definitions: dict[str, Any]
    publishes: list[Sent]
    # Numbers of the messages that each queue holds at the end, in order.
    holds: dict[str, list[int]] = field(default_factory=dict)
    returned: list[int] = field(default_factory=list)
    nacked: list[int] = field(default_factory=list)
    refused: dict[int, int] = field(default_factory=dict)
    # By queue: number and reason.
    dead: dict[str, list[str]] = field(default_factory=dict)
    ends_after: int = 0


DLX = {"x_dead_letter_exchange": ""}
STORIES = [
    Story(
        "the default exchange leads to the queue of that name",
        definitions(queue("q")),
        [send(1, "", "q"), send(2, "", "other")],
        holds={"q": [1]},
    ),
    Story(
        "exchanges bound in a circle reach each queue once",
        definitions(
            exchange("a", "fanout"), exchange("b", "fanout"), queue("q"), queue("r"),
            binding("a", "b", to="exchange"), binding("b", "a", to="exchange"),
            binding("a", "q"), binding("b", "q"), binding("b", "r"),
        ),
        [send(1, "a"), send(2, "b")],
        holds={"q": [1, 2], "r": [1, 2]},
    ),
    Story(
        "the alternate exchange takes what no binding wants",
        definitions(
            exchange("a", "direct", alternate_exchange="b"), exchange("b", "fanout"), queue("q"), queue("rest"),
            binding("a", "q", "k"), binding("b", "rest"),
        ),
        [send(1, "a", "k"), send(2, "a", "x", mandatory=True)],
        holds={"q": [1], "rest": [2]},
    ),
    Story(
        "a binding to an exchange that leads nowhere keeps the alternate out",
        definitions(
            exchange("a", "fanout", alternate_exchange="b"), exchange("b", "fanout"), exchange("dead", "fanout"),
            queue("rest"), binding("a", "dead", to="exchange"), binding("b", "rest"),
        ),
        [send(1, "a", mandatory=True)],
        returned=[1],
    ),
    Story(
        "an alternate exchange that does not exist returns what is mandatory",
        definitions(exchange("a", "direct", alternate_exchange="missing")),
        [send(1, "a", "k", mandatory=True), send(2, "a", "k")],
        returned=[1],
    ),
    Story(
        "alternates in a circle come to an end",
        definitions(exchange("a", "direct", alternate_exchange="b"), exchange("b", "direct", alternate_exchange="a")),
        [send(1, "a", "k", mandatory=True)],
        returned=[1],
    ),
    Story(
        "CC and BCC add keys, and a queue that two of them lead to gets one copy",
        definitions(exchange("a", "direct"), queue("q"), queue("r"), binding("a", "q", "1"), binding("a", "q", "2"),
                    binding("a", "r", "3")),
        [send(1, "a", "1", headers={"CC": ["2"], "BCC": ["3"]})],
        holds={"q": [1], "r": [1]},
    ),
    Story(
        "CC that is no list is refused",
        definitions(exchange("a", "direct")),
        [send(1, "a", "1", headers={"CC": "2"})],
        refused={1: 406},
    ),
    Story(
        "CC goes with a dead letter, unless it has a key of its own",
        definitions(
            exchange("d", "direct"), queue("q", x_max_length=0, x_dead_letter_exchange="d"),
            queue("own", x_max_length=0, x_dead_letter_exchange="d", x_dead_letter_routing_key="k"),
            queue("cc"), queue("k"), binding("d", "cc", "c"), binding("d", "k", "k"),
        ),
        [send(1, "", "q", headers={"CC": ["c"]}), send(2, "", "own", headers={"CC": ["c"]})],
        holds={"cc": [1], "k": [2]},
        dead={"q": ["1 maxlen"], "own": ["2 maxlen"]},
    ),
    Story(
        "the oldest go when a queue is full",
        definitions(queue("q", x_max_length=2)),
        [send(number, "", "q") for number in (1, 2, 3, 4)],
        holds={"q": [3, 4]},
    ),
    Story(
        "a body that alone is over max-length-bytes goes as well",
        definitions(queue("q", x_max_length_bytes=30)),
        [send(1, "", "q", body_size=10), send(2, "", "q", body_size=31), send(3, "", "q", body_size=30)],
        holds={"q": [3]},
    ),
    Story(
        "reject-publish keeps the oldest and nacks",
        definitions(queue("q", x_max_length=1, x_overflow="reject-publish")),
        [send(1, "", "q"), send(2, "", "q")],
        holds={"q": [1]},
        nacked=[2],
    ),
    Story(
        "reject-publish-dlx nacks and dead-letters",
        definitions(
            queue("q", x_max_length=1, x_overflow="reject-publish-dlx", x_dead_letter_exchange="",
                  x_dead_letter_routing_key="d"),
            queue("d"),
        ),
        [send(1, "", "q"), send(2, "", "q")],
        holds={"q": [1], "d": [2]},
        nacked=[2],
        dead={"q": ["2 maxlen"]},
    ),
    Story(
        "one queue that refuses makes it a nack, and the others keep the message",
        definitions(
            exchange("a", "fanout"), queue("full", x_max_length=0, x_overflow="reject-publish"), queue("open"),
            binding("a", "full"), binding("a", "open"),
        ),
        [send(1, "a")],
        holds={"open": [1]},
        nacked=[1],
    ),
    Story(
        "a full queue refuses a dead letter, and nobody hears of it",
        definitions(
            queue("q", x_max_length=0, x_dead_letter_exchange="", x_dead_letter_routing_key="d"),
            queue("d", x_max_length=1, x_overflow="reject-publish"),
        ),
        [send(1, "", "q"), send(2, "", "q")],
        holds={"d": [1]},
        dead={"q": ["1 maxlen", "2 maxlen"]},
    ),
    Story(
        "TTL counts from the publish and ends at its millisecond",
        definitions(queue("q", x_message_ttl=10)),
        [send(1, "", "q"), send(2, "", "q", after=1)],
        holds={"q": [2]},
        ends_after=10,
    ),
    Story(
        "a short TTL waits behind a longer one",
        definitions(queue("q")),
        [send(1, "", "q", expiration="100"), send(2, "", "q", expiration="1")],
        holds={"q": [1, 2]},
        ends_after=99,
    ),
    Story(
        "and goes with it",
        definitions(queue("q")),
        [send(1, "", "q", expiration="100"), send(2, "", "q", expiration="1"), send(3, "", "q")],
        holds={"q": [3]},
        ends_after=100,
    ),
    Story(
        "TTL 0 without consumers goes nowhere, and with a dead-letter exchange there",
        definitions(
            queue("q", x_message_ttl=0),
            queue("r", x_message_ttl=0, x_dead_letter_exchange="", x_dead_letter_routing_key="d"), queue("d"),
        ),
        [send(1, "", "q"), send(2, "", "r")],
        holds={"d": [2]},
        dead={"r": ["2 expired"]},
    ),
    Story(
        "a message that a limit uncovers expires at once",
        definitions(queue("q", x_max_length=2)),
        [send(1, "", "q"), send(2, "", "q", expiration="5"), send(3, "", "q", after=10)],
        holds={"q": [3]},
        ends_after=10,
    ),
    Story(
        "a dead-letter loop by TTL ends after one round",
        definitions(
            queue("q", x_message_ttl=10, x_dead_letter_exchange="", x_dead_letter_routing_key="r"),
            queue("r", x_message_ttl=10, x_dead_letter_exchange="", x_dead_letter_routing_key="q"),
        ),
        [send(1, "", "q")],
        dead={"q": ["1 expired"], "r": ["1 expired"]},
        ends_after=1000,
    ),
    Story(
        "a queue that dead-letters to itself drops what comes round",
        definitions(queue("q", x_max_length=1, **DLX, x_dead_letter_routing_key="q")),
        [send(1, "", "q"), send(2, "", "q")],
        holds={"q": [2]},
        dead={"q": ["1 maxlen"]},
    ),
    Story(
        "a chain of full queues hands on from one to the next",
        definitions(
            queue("a", x_max_length=1, **DLX, x_dead_letter_routing_key="b"),
            queue("b", x_max_length=1, **DLX, x_dead_letter_routing_key="c"), queue("c"),
        ),
        [send(number, "", "a") for number in (1, 2, 3, 4)],
        holds={"a": [4], "b": [3], "c": [1, 2]},
        dead={"a": ["1 maxlen", "2 maxlen", "3 maxlen"], "b": ["1 maxlen", "2 maxlen"]},
    ),
    Story(
        "without its dead-letter exchange a dead letter is lost",
        definitions(queue("q", x_max_length=1, x_dead_letter_exchange="missing")),
        [send(1, "", "q"), send(2, "", "q")],
        holds={"q": [2]},
    ),
    Story(
        "two queues that expire at one moment do so in the order in which their timers were set",
        definitions(
            queue("b", x_message_ttl=10, **DLX, x_dead_letter_routing_key="d"),
            queue("a", x_message_ttl=10, **DLX, x_dead_letter_routing_key="d"), queue("d"),
        ),
        [send(1, "", "a"), send(2, "", "b"), send(3, "", "a")],
        holds={"d": [1, 3, 2]},
        dead={"a": ["1 expired", "3 expired"], "b": ["2 expired"]},
        ends_after=10,
    ),
    Story(
        "higher priorities stand first, and fall first when the queue is full",
        definitions(queue("q", x_max_priority=5, x_max_length=3)),
        [send(1, "", "q", priority=1), send(2, "", "q", priority=5), send(3, "", "q", priority=9), send(4, "", "q")],
        holds={"q": [3, 1, 4]},
    ),
    Story(
        "a duplicate is acked and not queued, until its id is forgotten",
        definitions(queue("q", x_message_deduplication=True, x_deduplication_header="id", x_cache_ttl=10)),
        [send(1, "", "q", headers={"id": "x"}), send(2, "", "q", after=9, headers={"id": "x"}),
         send(3, "", "q", after=10, headers={"id": "x"}), send(4, "", "q", after=10)],
        holds={"q": [1, 3, 4]},
        ends_after=10,
    ),
    Story(
        "an idle queue expires with all it holds, and its bindings with it",
        definitions(
            exchange("a", "fanout"), queue("q", x_expires=10), queue("r"), binding("a", "q"), binding("a", "r")
        ),
        [send(1, "a"), send(2, "a", after=9), send(3, "a", after=10), send(4, "", "q", after=10, mandatory=True)],
        holds={"r": [1, 2, 3]},
        returned=[4],
        ends_after=10,
    ),
    Story(
        "permissions, topic permissions, internal exchanges and unknown ones refuse in the broker's words",
        definitions(
            exchange("a", "topic"), exchange("hidden", "fanout", internal=True), queue("q"), binding("a", "q", "#"),
            user("joe", write="^a$"), topic_permission("joe", "a", "^ok"),
        ),
        [send(1, "a", "ok", user="joe"), send(2, "a", "no", user="joe"), send(3, "", "q", user="joe"),
         send(4, "hidden"), send(5, "missing"), send(6, "", "q", user="who"), send(7, "", "q", vhost="else")],
        holds={"q": [1]},
        refused={2: 403, 3: 403, 4: 403, 5: 404, 6: 403, 7: 530},
    ),
    Story(
        "the user id must be the publisher's own, the expiration a number, the size within the limit",
        definitions(queue("q"), user("agent", tags="impersonator")),
        [send(1, "", "q", user_id="guest"), send(2, "", "q", user_id="joe"),
         send(3, "", "q", user_id="joe", user="agent"), send(4, "", "q", expiration="soon"),
         send(5, "", "q", body_size=MAX_MESSAGE_SIZE), send(6, "", "q", body_size=MAX_MESSAGE_SIZE + 1)],
        holds={"q": [1, 3, 5]},
        refused={2: 406, 4: 406, 6: 406},
    ),
    Story(
        "a policy lays limits over queues, and the stricter holds",
        definitions(queue("q", x_max_length=3), queue("r"), policy("^[qr]$", max_length=2)),
        [send(number, "", name) for number, name in enumerate("qqqrrr", 1)],
        holds={"q": [2, 3], "r": [5, 6]},
    ),
    Story(
        "headers and hashes look beyond the key",
        definitions(
            exchange("h", "headers"), exchange("c", "x-consistent-hash", hash_header="id"), queue("q"), queue("r"),
            binding("h", "q", x_match="all", a="1", b="2"), binding("h", "r", x_match="any", a="1", b="2"),
            binding("c", "q", "1"), binding("c", "r", "1"),
        ),
        [send(1, "h", headers={"a": "1"}), send(2, "h", headers={"a": "1", "b": "2"}), send(3, "h", mandatory=True)],
        holds={"q": [2], "r": [1, 2]},
        returned=[3],
    ),
]  # fmt: skip


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_story(story: Story) -> None:
    until = START + story.ends_after
    outcome = path_outcome(story.definitions, story.publishes, until)
    assert {name: numbers_of(rows) for (_, name), rows in outcome.contents.items()} == story.holds
    assert [_number(name) for name in outcome.returns] == story.returned
    assert [_number(name) for name, answer in outcome.confirms.items() if answer == "nack"] == story.nacked
    assert {_number(name): code for name, (code, _) in outcome.refusals.items()} == story.refused
    dead = {name: [row.removeprefix("p:") for row in rows] for (_, name), rows in outcome.dead_lettered.items()}
    assert dead == story.dead
    assert difference(live_outcome(story.definitions, story.publishes, until), outcome) == ""
    ones = [1] * (len(story.publishes) - 1)
    assert difference(streamed_outcome(story.definitions, story.publishes, until, ones), outcome) == ""


def numbers_of(rows: list[tuple[str, str, str, Any]]) -> list[int]:
    return [_number(name) for name, _, _, _ in rows]


def _number(name: str) -> int:
    return int(name.removeprefix("p:"))


def test_there_are_thirty() -> None:
    assert len(STORIES) >= 30
    assert len({story.name for story in STORIES}) == len(STORIES)


def test_a_difference_is_noticed() -> None:
    story = STORIES[0]
    outcome = path_outcome(story.definitions, story.publishes, START)
    assert "contents" in difference(Outcome(confirms=outcome.confirms, entered=outcome.entered), outcome)
