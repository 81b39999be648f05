"""Interceptors and exchange decorators on the path: the same outcome as in the live broker that has them loaded."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from tests.spark.path.building import binding, definitions, exchange, policy, queue, send, user
from tests.spark.path.equality import difference, live_outcome, path_outcome, streamed_outcome
from tests.spark.path.extensions import CHANGE, COPY, REFUSE
from tests.spark.path.test_with_spark import outcome_of, sorted_letters, write
from tests.spark.path.traffic import MAX_MESSAGE_SIZE, START, Sent
from warren.cli.route import route
from warren.errors import WarrenError
from warren.spark.path import MessagePath
from warren.spark.path.topology import read_topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.path.outcome import Outcome

DLX = {"x_dead_letter_exchange": "dlx"}
MADE = definitions(
    *user("other"), exchange("e", "topic"), exchange("h", "headers"), exchange("audit", "fanout"),
    exchange("dlx", "topic"), exchange("aside", "direct", alternate_exchange="audit"),
    queue("new", x_max_length=4, **DLX), queue("old"), queue("ranked", x_max_priority=9, x_max_length_bytes=200),
    queue("even"), queue("trail", x_max_length=6, x_overflow="reject-publish"), queue("dead"), queue("plain"),
    binding("e", "new", "new.#"), binding("e", "old", "old.#"), binding("e", "ranked", "#"), binding("e", "plain", "#"),
    binding("h", "even", half="even"), binding("audit", "trail"), binding("dlx", "dead", "#"),
)  # fmt: skip
WITH_POLICY = {**MADE, "policies": [policy("^(e|dlx|aside)$", copies="yes")[1]]}
KEYS = ["new.a", "old.a", "other", "secret", "broken", "old.b", "new.b"]
KINDS = [None, "short", None, "urgent"]
UNTIL = START + 5000


def traffic() -> list[Sent]:
    sent: list[Sent] = []
    for number in range(70):
        kind = KINDS[number % len(KINDS)]
        headers = {"copy": "audit" if number % 5 else "nowhere"} if number % 3 == 0 else None
        more: dict[str, Any] = {} if kind is None else {"app_id": kind}
        where = "gone" if number % 11 == 10 else "h" if number % 4 == 2 else "aside" if number % 13 == 12 else "e"
        sent.append(
            send(
                number, where, KEYS[number % len(KEYS)], after=number * 60, headers=headers,
                mandatory=number % 6 == 1, body_size=60 if number % 9 == 8 else 10,
                user="other" if number % 17 == 16 else "guest", **more,
            )
        )  # fmt: skip
    # Too large once it is changed, or before anybody is asked.
    return [*sent, send(700, "e", "x", after=4500, body_size=100), send(701, "e", "secret", after=4500, body_size=130)]


CASES = [
    pytest.param(MADE, {"interceptors": [CHANGE]}, id="an interceptor that changes"),
    pytest.param(MADE, {"interceptors": [REFUSE]}, id="an interceptor that refuses"),
    pytest.param(WITH_POLICY, {"exchange_decorators": [COPY]}, id="an exchange decorator"),
    pytest.param(WITH_POLICY, {"interceptors": [CHANGE], "exchange_decorators": [COPY]}, id="both"),
]


def live(made: dict[str, Any], extensions: dict[str, Any]) -> Outcome:
    """Of which the extensions have changed something: else nothing is proven by equality."""
    outcome = live_outcome(made, traffic(), UNTIL, **extensions)
    without = {**made, "policies": []}
    assert difference(outcome, live_outcome(without, traffic(), UNTIL)) != ""
    return outcome


@pytest.mark.parametrize(("made", "extensions"), CASES)
def test_the_path_with_an_extension_is_the_broker_with_it(made: dict[str, Any], extensions: dict[str, Any]) -> None:
    assert difference(live(made, extensions), path_outcome(made, traffic(), UNTIL, **extensions)) == ""


@pytest.mark.parametrize(("made", "extensions"), CASES)
def test_in_batches_of_a_stream_too(made: dict[str, Any], extensions: dict[str, Any]) -> None:
    streamed = streamed_outcome(made, traffic(), UNTIL, [1, 20, 3], **extensions)
    assert difference(live(made, extensions), streamed) == ""


def test_what_an_interceptor_says_is_what_publishers_read() -> None:
    refusals = path_outcome(MADE, traffic(), UNTIL, interceptors=[REFUSE]).refusals
    assert refusals["p:3"] == (406, "PRECONDITION_FAILED - no secret to e")
    assert refusals["p:16"] == (530, "NOT_ALLOWED - other publishes nothing")
    assert refusals["p:4"] == (541, "INTERNAL_ERROR - unexpected error")
    assert refusals["p:701"][1].startswith("PRECONDITION_FAILED - message size 130 is larger")


def test_a_decorator_cannot_take_a_route_away_and_its_fault_costs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    publishes = [replace(sent, headers=None) for sent in traffic()]
    with_it = path_outcome(WITH_POLICY, publishes, UNTIL, exchange_decorators=[COPY])
    assert difference(with_it, path_outcome(MADE, publishes, UNTIL)) == ""
    assert f"extension {COPY} failed in route" in caplog.text


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"interceptors": ["nowhere:All"]}, "interceptors: cannot load nowhere:All: No module named 'nowhere'"),
        ({"exchange_decorators": [CHANGE]}, f"exchange_decorators: {CHANGE} is not a subclass of "),
        ({"interceptors": [CHANGE, REFUSE]}, "interceptors: two interceptors want basic.publish: Change and Refuse"),
        ({"interceptors": CHANGE}, "interceptors: must be a list of names of the form package.module:Class"),
        ({"exchange_decorators": [1]}, "exchange_decorators: must be a list of names of the form "),
    ],
)
def test_a_mistake_names_the_option(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(WarrenError) as refused:
        read_topology(MADE, **options)
    assert str(refused.value).startswith(reason)


@pytest.mark.parametrize("option", ["interceptors", "exchange_decorators"])
def test_the_command_takes_them_and_names_the_option_too(tmp_path: Path, option: str) -> None:
    (tmp_path / "definitions.json").write_text(json.dumps(MADE))
    (tmp_path / "publishes.jsonl").write_text("{}\n")
    files = {"definitions": "definitions.json", "publishes": "publishes.jsonl", "out": "out"}
    arguments = [part for name, file in files.items() for part in (f"--{name}", str(tmp_path / file))]
    arguments += [f"--{option.replace('_', '-')}", f"{COPY}, nowhere:All" if option[0] == "e" else "nowhere:All"]
    with pytest.raises(WarrenError, match=f"{option}: cannot load nowhere:All: No module named 'nowhere'"):
        CliRunner().invoke(route, arguments, catch_exceptions=False)


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("made", "extensions"),
    [
        (WITH_POLICY, {"interceptors": [CHANGE], "exchange_decorators": [COPY]}),
        # Refused on Spark as without it, which docs/message-path.md shows too.
        pytest.param(WITH_POLICY, {"interceptors": [REFUSE], "exchange_decorators": [COPY]}, marks=pytest.mark.long),
    ],
)
def test_on_spark_it_is_the_broker_with_it(
    spark: SparkSession, tmp_path: Path, made: dict[str, Any], extensions: dict[str, Any]
) -> None:
    write(traffic(), tmp_path / "publishes.parquet")
    frame = spark.read.parquet(str(tmp_path / "publishes.parquet")).repartition(2)
    path = MessagePath(made, max_message_size=MAX_MESSAGE_SIZE, **extensions)
    result = path.run(frame, partitions=2, until=datetime.fromtimestamp(UNTIL / 1000, UTC))
    told = outcome_of(result)
    result.unpersist()
    assert difference(sorted_letters(live(made, extensions)), sorted_letters(told)) == ""
