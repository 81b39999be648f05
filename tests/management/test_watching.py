"""The event exchange and the firehose tell what RabbitMQ 3.10.8 tells, header by header with their types.

`python -m tests.management.test_watching` records the installed RabbitMQ; whatever differs has a reason here.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.management.scene import Api
from tests.management.watched_scene import Told, events, firehose
from tests.rabbitmq_node import MANAGEMENT, start_node
from warren import Broker

RECORDED: Final = Path(__file__).with_name("rabbitmq-3.10.8-watching.json")
SCENES: Final = {"events": events, "firehose": firehose}
# Headers that are left out of the comparison: event, header, why.
OTHER_HEADERS: Final = (
    ("channel.closed", "name", "more is told here: there only the process says which channel it was"),
    ("channel.closed", "connection", "more is told here"),
    ("topic.permission.deleted", "exchange", "more is told here"),
    ("user.authentication.failure", "error", "a text here, there a list of its characters' numbers"),
    ("vhost.created", "metadata", "description and tags once more, as one Erlang term"),
    ("vhost.updated", "metadata", "description and tags once more, as one Erlang term"),
)
# What only one of the two tells.
ONLY_THERE: Final = (
    (r"^parameter\..*exchange-delete-in-progress", "a note that RabbitMQ's cluster makes for itself"),
    (r"^parameter\.set .*\"S:global\".*\"S:motto\"(?!.*value)", "that one was cleared: there set, without a value"),
    (r"^connection\.closed ", "the connection whose login failed was never opened"),
)
ONLY_HERE: Final = ((r"^parameter\.cleared .*\"S:global\"", "that one was cleared"),)


def main() -> None:
    with start_node((MANAGEMENT, "rabbitmq_event_exchange")) as node:
        api = Api(node.http_port)
        node.await_startup(api.is_up)
        found = {name: scene(api, node.amqp_port) for name, scene in SCENES.items()}
    RECORDED.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")


def lines(told: Told) -> Counter[str]:
    """One line for each message, in no order: queues and exchanges of a vhost go in any."""
    found: Counter[str] = Counter()
    for key, messages in told.items():
        left_out = {header for event, header, _ in OTHER_HEADERS if event == key}
        for headers in messages:
            kept = {name: value for name, value in headers.items() if name not in left_out}
            found[f"{key} {json.dumps(kept, sort_keys=True)}"] += 1
    return found


def unexplained(found: Counter[str], reasons: tuple[tuple[str, str], ...]) -> list[str]:
    return [line for line in sorted(found.elements()) if not any(re.search(each, line) for each, _ in reasons)]


@pytest.mark.parametrize("scene", SCENES)
def test_what_is_told_is_what_rabbitmq_tells_or_there_is_a_reason(broker: Broker, scene: str) -> None:
    theirs = lines(json.loads(RECORDED.read_text())[scene])
    ours = lines(SCENES[scene](Api(int(broker.http_url.rpartition(":")[2])), broker.port))
    assert unexplained(theirs - ours, ONLY_THERE) == []
    assert unexplained(ours - theirs, ONLY_HERE) == []


def test_every_reason_is_still_needed(broker: Broker) -> None:
    theirs = json.loads(RECORDED.read_text())["events"]
    ours = events(Api(int(broker.http_url.rpartition(":")[2])), broker.port)
    for event, header, _ in OTHER_HEADERS:
        assert [each.get(header) for each in theirs[event]] != [each.get(header) for each in ours[event]]
    for reasons, found in ((ONLY_THERE, lines(theirs) - lines(ours)), (ONLY_HERE, lines(ours) - lines(theirs))):
        for each, why in reasons:
            assert any(re.search(each, line) for line in found), why


if __name__ == "__main__":
    main()
