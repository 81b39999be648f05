"""Options: names in any case, values that can be meant so, and one sentence that names the option for all others."""

from __future__ import annotations

import pytest

from warren.errors import WarrenError
from warren.spark.options import EARLIEST, LATEST, OnReturn, Position, ReadKind, read_options, write_options

URI = "amqp://guest:guest@localhost:5672/%2F"


def refusal_to_read(is_streaming: bool = False, /, **options: str) -> str:
    with pytest.raises(WarrenError) as refused:
        read_options({"uri": URI, **options}, is_streaming)
    return str(refused.value)


def refusal_to_write(columns: list[str] | None = None, /, **options: str) -> str:
    with pytest.raises(WarrenError) as refused:
        write_options({"uri": URI, **options}, columns if columns is not None else ["body", "routing_key", "exchange"])
    return str(refused.value)


def test_case_does_not_matter() -> None:
    options = read_options({"URI": URI, "Stream": "s", "STARTINGOFFSETS": "Latest"}, is_streaming=False)
    assert (options.kind, options.names, options.start) == (ReadKind.STREAM, ("s",), Position(LATEST))


def test_a_table_begins_at_the_oldest_message_and_a_query_with_what_comes() -> None:
    given = {"uri": URI, "stream": "s"}
    assert read_options(given, is_streaming=False).start == Position(EARLIEST)
    assert read_options(given, is_streaming=True).start == Position(LATEST)


def test_several_streams_are_a_json_list() -> None:
    assert read_options({"uri": URI, "stream": '["a,b", "c"]'}, is_streaming=True).names == ("a,b", "c")


def test_offsets_by_name_leave_the_others_at_the_default() -> None:
    options = read_options({"uri": URI, "stream": '["a","b"]', "startingOffsets": '{"a": 5}'}, is_streaming=True)
    assert options.start.offset_of("a") == 5
    assert options.start.offset_of("b") == LATEST


@pytest.mark.parametrize(
    ("value", "milliseconds"), [("1700000000000", 1_700_000_000_000), ("2023-11-14T22:13:20Z", 1_700_000_000_000)]
)
def test_a_time_is_milliseconds_or_a_date(value: str, milliseconds: int) -> None:
    options = read_options({"uri": URI, "stream": "s", "startingTimestamp": value}, is_streaming=False)
    assert options.start.timestamp == milliseconds


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"strem": "s"}, "option strem is unknown"),
        ({"stream": "s", "includeHeaders": "true"}, "headers are always there"),
        ({}, "option stream, superStream or queue is missing"),
        ({"stream": "s", "queue": "q"}, "options stream, queue contradict"),
        ({"stream": ""}, "option stream is wrong"),
        ({"stream": '["a", "a"]'}, "option stream is wrong"),
        ({"queue": '["a", "b"]'}, "only one can be read"),
        ({"stream": "s", "startingOffsets": "12"}, "option startingOffsets is wrong"),
        ({"stream": "s", "startingOffsets": '{"s": -3}'}, "option startingOffsets is wrong"),
        ({"stream": "s", "startingOffsets": '{"t": 1}'}, "'t' is not among what is read"),
        ({"stream": "s", "startingOffsets": "latest", "startingTimestamp": "1"}, "contradict"),
        ({"stream": "s", "startingTimestamp": "yesterday"}, "option startingTimestamp is wrong"),
        ({"stream": "s", "minPartitions": "0"}, "option minPartitions is wrong"),
        ({"stream": "s", "prefetch": "70000"}, "option prefetch is wrong"),
        ({"stream": "s", "failOnDataLoss": "no"}, "option failOnDataLoss is wrong"),
        ({"stream": "s", "maxOffsetsPerTrigger": "5"}, "option maxOffsetsPerTrigger does not apply"),
        ({"stream": "s", "spoolDir": "/tmp"}, "option spoolDir does not apply"),
        ({"queue": "q", "startingOffsets": "earliest"}, "option startingOffsets does not apply"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(options: dict[str, str], named: str) -> None:
    assert named in refusal_to_read(False, **options)


def test_a_streaming_query_has_no_end() -> None:
    assert "option endingOffsets does not apply" in refusal_to_read(True, stream="s", endingOffsets="latest")


@pytest.mark.parametrize(
    "uri", ["localhost", "http://localhost", "amqp://host:port", "amqp://u:secret@h?x=1", "amqp://"]
)
def test_a_wrong_address_is_refused_without_its_password(uri: str) -> None:
    refusal = refusal_to_read(stream="s", uri=uri)
    assert refusal.startswith("option uri is wrong")
    assert "secret" not in refusal


def test_without_an_address_there_is_nothing_to_read() -> None:
    with pytest.raises(WarrenError, match="option uri is missing"):
        read_options({"stream": "s"}, is_streaming=False)


@pytest.mark.parametrize(
    ("columns", "options", "named"),
    [
        (["body"], {"routingKey": "k"}, "option exchange is missing"),
        (["body"], {"exchange": ""}, "option routingKey is missing"),
        (None, {"onReturn": "fail"}, "option onReturn means nothing without mandatory"),
        (None, {"onReturn": "maybe", "mandatory": "true"}, "option onReturn is wrong"),
        (None, {"onReturn": "collect", "mandatory": "true"}, "returnsPath"),
        (None, {"returnsPath": "/tmp", "mandatory": "true"}, "returnsPath"),
        (None, {"maxInFlight": "0"}, "option maxInFlight is wrong"),
        (None, {"stream": "s"}, "option stream is unknown"),
        (None, {"deduplicationHeader": "x" * 256}, "option deduplicationHeader is wrong"),
    ],
)
def test_what_cannot_be_written_is_refused_by_name(
    columns: list[str] | None, options: dict[str, str], named: str
) -> None:
    assert named in refusal_to_write(columns, **options)


def test_what_is_written_may_come_from_columns_or_options() -> None:
    options = write_options({"uri": URI, "exchange": "e", "checkpointLocation": "/c"}, ["body", "routing_key"])
    assert (options.exchange, options.routing_key, options.on_return) == ("e", None, OnReturn.FAIL)
    assert write_options({"uri": URI, "routingKey": "", "exchange": ""}, ["body"]).routing_key == ""
    assert write_options({"uri": URI, "routingKey": "", "exchange": "", "deduplicationHeader": "none"}, []) is not None
