"""The keys of every GET are those of RabbitMQ 3.10.8, but for the differences listed here with their reasons."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from tests.management.scene import PATHS, VHOST, Api, declare, keys_of_all, played, rabbitmq
from tests.rabbitmq_node import installed_version
from warren import Broker

RECORDED: Final = Path(__file__).with_name("rabbitmq-3.10.8-answers.json")

# What of RabbitMQ's is not here: where, which keys, why.
MISSING: Final = (
    ("", r"garbage_collection|reductions|minor_gcs", "the Erlang machine's: there is none"),
    ("", r"recoverable_slaves|pending_raft_commands", "there is one node, and nothing is replicated"),
    ("", r"cowboy_opts|socket_opts|ssl_opts", "options of RabbitMQ's own HTTP and socket libraries"),
    ("", r"user_who_performed_action", "who made an exchange is not recorded"),
    ("overview", r"disk_(reads|writes)", "the log is written in batches, not message by message"),
    ("memory", r"memory\.\w+", "Python does not tell what it uses memory for"),
    ("extensions", r"javascript", "the page has no extensions"),
    ("connections", r"ssl_\w+|peer_cert_(issuer|validity)", "only the subject of a client's certificate is kept"),
    ("channels", r"message_stats\.(deliver|deliver_no_ack|redeliver|get_empty|get_no_ack|drop_unroutable)",
     "counted per queue and per node; per channel it would cost on the path of every message"),
    ("channels", r"(messages|acks)_uncommitted|idle_since", "not kept per channel"),
    ("queues", r"backing_queue_status", "RabbitMQ's way to keep messages, not ours"),
    ("queues", r"memory|message_bytes_(paged_out|persistent|ram)|messages_persistent", "not measured per queue"),
    ("vhosts", r"message_stats\.(confirm|return_unroutable|drop_unroutable)", "counted per node: see the overview"),
    ("nodes", r"(io|mnesia|msg_store|queue_index|ra_open_file|metrics_gc)_\w+|ra_open_file_metrics",
     "inner workings of RabbitMQ's stores"),
    ("nodes", r"context_switches|gc_\w+|proc_\w+|run_queue|net_ticktime", "the Erlang machine's: there is none"),
)  # fmt: skip

# What is here and not in RabbitMQ 3.10.8.
ADDED: Final = (
    ("overview", r"warren_version|core|python_version|alarms|delivery_latency|stream_totals", "Warren's own"),
    ("nodes", r"fd_alarm", "Warren's own: file descriptors have an alarm too"),
    ("nodes", r"contexts\[\]\.node", "as the overview has it"),
    ("", r"messages_delayed", "messages that wait for their next try: RabbitMQ 4.3 counts them too"),
    ("definitions", r"queues\[\]\.type|vhosts\[\]\.(description|tags|metadata|limits)", "RabbitMQ 3.13's format"),
    ("definitions/", r"product_name|product_version|rabbitmq_version", "as a file of all virtual hosts has them"),
    ("connections/username", r".*", "the whole connection, where RabbitMQ gives its name only"),
    ("auth", r"oauth_\w+", "the names of RabbitMQ 3.11 and later"),
)  # fmt: skip


@pytest.fixture(scope="module")
def ours() -> dict[str, list[str]]:
    with Broker(http=True) as broker:
        api = Api(int(broker.http_url.rpartition(":")[2]))
        with played(api, broker.port) as names:
            return keys_of_all(api, names)


@pytest.fixture(scope="module")
def theirs() -> dict[str, list[str]]:
    recorded: dict[str, list[str]] = json.loads(RECORDED.read_text())["keys"]
    return recorded


@pytest.mark.parametrize("path", PATHS)
def test_every_key_of_rabbitmq_is_there_or_there_is_a_reason(
    path: str, ours: dict[str, list[str]], theirs: dict[str, list[str]]
) -> None:
    assert unexplained(path, set(theirs[path]) - set(ours[path]), MISSING) == []


@pytest.mark.parametrize("path", PATHS)
def test_every_key_that_rabbitmq_does_not_have_is_there_for_a_reason(
    path: str, ours: dict[str, list[str]], theirs: dict[str, list[str]]
) -> None:
    assert unexplained(path, set(ours[path]) - set(theirs[path]), ADDED) == []


@pytest.mark.parametrize(("where", "keys", "reason"), MISSING + ADDED)
def test_every_listed_difference_exists(
    where: str, keys: str, reason: str, ours: dict[str, list[str]], theirs: dict[str, list[str]]
) -> None:
    different = {(path, key) for path in PATHS for key in set(ours[path]) ^ set(theirs[path])}
    assert any(explains(where, keys, path, key) for path, key in different), reason


@pytest.mark.long
@pytest.mark.timeout(120)
@pytest.mark.skipif(installed_version() != "3.10.8", reason="RabbitMQ 3.10.8 is not installed")
def test_the_recording_is_what_rabbitmq_answers_and_it_takes_our_definitions(theirs: dict[str, list[str]]) -> None:
    with rabbitmq() as (api, port):
        with played(api, port) as names:
            found = keys_of_all(api, names)
        api.ask("DELETE", f"/api/vhosts/{VHOST}")
        document = our_definitions()
        api.ask("POST", "/api/definitions", document)
        again = api.ask("GET", "/api/definitions")
    # Statistics of a young node come one by one: those that are not there yet were recorded once they were.
    for path in PATHS:
        assert set(found[path]) <= set(theirs[path]), path
    for section in ("queues", "exchanges", "bindings", "policies", "permissions", "topic_permissions"):
        assert shared(again, section) == shared(document, section)


def our_definitions() -> dict[str, Any]:
    with Broker(http=True) as broker:
        api = Api(int(broker.http_url.rpartition(":")[2]))
        declare(api)
        document: dict[str, Any] = api.ask("GET", "/api/definitions")
        return document


def shared(document: dict[str, Any], section: str) -> list[str]:
    """What both say of the scene, whatever else one of them tells."""
    rows = [row for row in document[section] if row["vhost"] == VHOST]
    return sorted(
        json.dumps(
            {**row, "type": row.get("type", "")}
            if section == "exchanges"
            else {key: row[key] for key in row if key != "type"},
            sort_keys=True,
        )
        for row in rows
    )


def unexplained(path: str, keys: set[str], reasons: tuple[tuple[str, str, str], ...]) -> list[str]:
    return sorted(
        key for key in keys if not any(explains(where, expected, path, key) for where, expected, _ in reasons)
    )


def explains(where: str, keys: str, path: str, key: str) -> bool:
    """`keys` are meant wherever they stand, with all that is in them and their `_details`."""
    return where in path and re.search(rf"(^|[.\]])({keys})(_details)?(\.|\[|$)", key) is not None
