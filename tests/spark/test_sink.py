"""Publishing rows, by calling the writer's own parts: what arrives, what is confirmed, and what becomes of the rest."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pika
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import StructType

from tests.amqp.wire import SCALARS
from tests.spark.broker_under_test import BrokerUnderTest, numbered
from tests.spark.test_streams import read_table
from warren.amqp.fields import Field, Table
from warren.amqp.tables import decode_table, encode_table
from warren.errors import WarrenError
from warren.spark.encode import merge_headers
from warren.spark.options import write_options
from warren.spark.pipelines.publish_step import StreamPublishStep
from warren.spark.publish import Unconfirmed
from warren.spark.sink import Published, check_columns, publish_rows

EVERY_TYPE: Table = {
    "S": Field("S", "text"),
    "bytes": Field("S", b"\xff\xfe"),
    "I": Field("I", -5),
    "i": Field("i", 4_000_000_000),
    "s": Field("s", -300),
    "b": Field("b", -7),
    "B": Field("B", 200),
    "l": Field("l", -(1 << 62)),
    "t": Field("t", True),
    "d": Field("d", 1.5),
    "f": Field("f", 0.25),
    "D": Field("D", Decimal("12.50")),
    "T": Field("T", 1_700_000_000),
    "V": Field("V", None),
    "x": Field("x", b"\xff\x00"),
    "F": Field("F", {"in": Field("A", [Field("I", 1), Field("S", "two")])}),
}


def publish(broker: BrokerUnderTest, columns: dict[str, object], identity: str = "q/0/0", **options: str) -> Published:
    table = pa.table(columns)
    given = {"uri": broker.uri, "exchange": "", "timeout": "10", **options}
    chosen = write_options(given, table.column_names)
    return publish_rows(chosen, identity, iter(table.to_batches(max_chunksize=100)))


def test_rows_arrive_in_order_and_persistent_with_ids_of_their_own(broker: BrokerUnderTest) -> None:
    name = broker.make("classic")
    published = publish(broker, {"value": numbered(250)}, "query/7/3", routingKey=name)
    assert (published.messages, published.returned) == (250, 0)
    found = broker.get_all(name)
    assert [body for _, _, body in found] == numbered(250)
    assert {properties.delivery_mode for _, properties, _ in found} == {2}
    ids = [properties.headers["x-deduplication-header"] for _, properties, _ in found]
    assert ids == [f"query/7/3/{row}" for row in range(250)]


@pytest.mark.parametrize(
    ("name", "kind", "wanted"),
    [
        ("priority", "string", "int"),
        ("delivery_mode", "double", "int"),
        ("message_id", "long", "string"),
        ("timestamp", "string", "a timestamp, or seconds as bigint"),
    ],
)
def test_a_property_of_the_wrong_type_is_told_before_anything_is_sent(name: str, kind: str, wanted: str) -> None:
    right = StructType().add("body", "binary")
    flat = StructType().add("body", "binary").add(name, kind)
    with pytest.raises(WarrenError, match=rf"^column {name} is \w+ and must be {wanted}$"):
        check_columns(flat)
    with pytest.raises(WarrenError, match=rf"^column properties.{name} is \w+ and must be {wanted}$"):
        check_columns(right.add("properties", StructType().add(name, kind)))
    check_columns(StructType().add("body", "string").add("priority", "short").add("timestamp", "timestamp"))


def test_rows_made_of_one_message_need_not_share_its_id_nor_its_mode(broker: BrokerUnderTest) -> None:
    name = broker.make("classic")
    inherited = [("x-deduplication-header", "of the order"), ("kept", "yes")]
    headers = pa.array([inherited] * 3, pa.map_(pa.string(), pa.string()))
    modes = pa.array([1, None, 2], pa.int32())
    table = pa.table({"body": ["a", "b", "c"], "headers": headers, "delivery_mode": modes})
    for more in ({}, {"newIds": "true", "persistent": "true"}):
        given = {"uri": broker.uri, "timeout": "10", "exchange": "", "routingKey": name, **more}
        publish_rows(write_options(given, table.column_names), "q/0/0", iter(table.to_batches()))
    found = [properties for _, properties, _ in broker.get_all(name)]
    assert [each.headers["x-deduplication-header"] for each in found] == ["of the order"] * 3 + [
        "q/0/0/0",
        "q/0/0/1",
        "q/0/0/2",
    ]
    assert {each.headers["kept"] for each in found} == {"yes"}
    assert [each.delivery_mode for each in found] == [1, None, 2, 2, 2, 2]


def test_exchange_and_key_may_differ_from_row_to_row(broker: BrokerUnderTest) -> None:
    names = [broker.make("classic"), broker.make("classic")]
    with broker.channel() as channel:
        channel.exchange_declare("rows", "direct")
        channel.queue_bind(names[1], "rows", "bound")
    given = {"uri": broker.uri, "timeout": "10"}
    table = pa.table({"body": ["one", "two"], "exchange": ["", "rows"], "routing_key": [names[0], "bound"]})
    publish_rows(write_options(given, table.column_names), "q/0/0", iter(table.to_batches()))
    assert [[body for *_, body in broker.get_all(name)] for name in names] == [[b"one"], [b"two"]]


def test_a_window_of_one_publishes_as_much(broker: BrokerUnderTest) -> None:
    name = broker.make("classic")
    assert publish(broker, {"value": numbered(50)}, routingKey=name, maxInFlight="1").messages == 50
    assert broker.count(name) == 50


def test_bodies_larger_than_a_frame_are_cut(broker: BrokerUnderTest) -> None:
    name = broker.make("classic")
    large = [b"a" * 400_000, b"", b"b" * 131_064]
    publish(broker, {"value": large}, routingKey=name)
    assert [body for *_, body in broker.get_all(name)] == large


def test_without_a_queue_a_mandatory_row_fails_the_task(broker: BrokerUnderTest) -> None:
    with pytest.raises(WarrenError, match="no queue for routing key 'nobody': 312 NO_ROUTE"):
        publish(broker, {"value": numbered(3)}, routingKey="nobody", mandatory="true")


def test_returns_may_be_ignored(broker: BrokerUnderTest) -> None:
    options = {"mandatory": "true", "onReturn": "ignore", "routingKey": "nobody"}
    published = publish(broker, {"value": numbered(300)}, **options)
    assert (published.messages, published.returned) == (300, 300)


def test_returns_may_be_collected(broker: BrokerUnderTest, tmp_path: Path) -> None:
    name = broker.make("classic")
    options = {"mandatory": "true", "onReturn": "collect", "returnsPath": str(tmp_path / "returns")}
    columns: dict[str, object] = {"value": [b"here", b"nowhere" * 30_000], "routing_key": [name, "nobody"]}
    for _ in range(2):
        # A repeated task writes its file again, and not a second one.
        assert publish(broker, columns, **options).returned == 1
    table = pq.read_table(tmp_path / "returns")
    assert table.column("body").to_pylist() == [b"nowhere" * 30_000]
    assert table.column("routing_key").to_pylist() == ["nobody"]
    assert table.column("reply_code").to_pylist() == [312]


def test_an_exchange_that_is_not_there_is_told(broker: BrokerUnderTest) -> None:
    with pytest.raises(WarrenError, match="no exchange 'no-such'"):
        publish(broker, {"value": numbered(3)}, routingKey="k", exchange="no-such")


def test_a_full_queue_refuses_and_the_task_fails(broker: BrokerUnderTest) -> None:
    name = broker.make("classic", **{"x-max-length": 2, "x-overflow": "reject-publish"})
    with pytest.raises(WarrenError, match="refused a message"):
        publish(broker, {"value": numbered(10)}, routingKey=name)


def test_a_null_key_is_told_with_its_row(warren: BrokerUnderTest) -> None:
    with pytest.raises(WarrenError, match="column routing_key is null in row q/0/0/1"):
        publish(warren, {"value": numbered(2), "routing_key": ["k", None]})


def test_all_properties_come_back_as_they_were(broker: BrokerUnderTest) -> None:
    name, copy = broker.make(), broker.make()
    properties = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"n": 5, "s": "text", "nested": {"a": [1, "b", None, True]}},
        delivery_mode=1,
        priority=3,
        correlation_id="correlation",
        reply_to="reply",
        expiration="60000",
        message_id="message",
        timestamp=1_700_000_000,
        type="type",
        user_id="guest",
        app_id="app",
        cluster_id="cluster",
    )
    broker.publish(name, [b"body"], properties)
    broker.publish(name, [b"bare"])
    rows = read_table(broker, stream=name)
    given = {"uri": broker.uri, "timeout": "10", "routingKey": copy, "deduplicationHeader": "none"}
    kept = [{**row, "exchange": ""} for row in rows]
    table = pa.Table.from_pylist(kept, schema=_schema_of(rows))
    publish_rows(write_options(given, table.column_names), "q/0/0", iter(table.to_batches()))
    again = read_table(broker, stream=copy)
    for before, after in zip(rows, again, strict=True):
        for column in ("body", "properties", "headers", "headers_raw", "timestamp"):
            assert after[column] == before[column]


def _schema_of(rows: list[dict[str, object]]) -> pa.Schema:
    from warren.spark.arrow_schema import ARROW

    assert list(rows[0]) == ARROW.names
    return ARROW


def test_every_type_of_a_header_comes_back_byte_for_byte(warren: BrokerUnderTest) -> None:
    # Of Warren alone: streams of RabbitMQ 3.10 fail with 541 on a decimal, for one.
    name = warren.make()
    raw = encode_table(EVERY_TYPE)
    assert {field.tag for field in EVERY_TYPE.values()} >= set(SCALARS) - {"L", "u"}
    publish(warren, {"value": [b""], "headers_raw": [raw]}, routingKey=name, deduplicationHeader="none")
    (row,) = read_table(warren, stream=name)
    assert row["headers_raw"] == raw


def test_changed_headers_are_sent_as_text_and_others_keep_their_type() -> None:
    raw = encode_table({"n": Field("I", 5), "m": Field("I", 6)})
    assert merge_headers([("n", "5"), ("m", "7"), ("new", "x")], raw) == {
        "n": Field("I", 5),
        "m": Field("S", "7"),
        "new": Field("S", "x"),
    }
    assert merge_headers(None, raw) == decode_table(raw, 4, len(raw))
    assert merge_headers(None, None) is None


def test_a_repeated_batch_arrives_once_where_the_queue_looks_out_for_it(warren: BrokerUnderTest) -> None:
    name = warren.make("classic", **{"x-message-deduplication": True, "x-cache-size": 1000})
    for _ in range(3):
        publish(warren, {"value": numbered(100)}, "query/4/0", routingKey=name)
    assert [body for *_, body in warren.get_all(name)] == numbered(100)


def test_a_step_that_is_not_told_which_batch_it_is_publishes_nothing(warren: BrokerUnderTest) -> None:
    name = warren.make("classic")
    options = write_options({"uri": warren.uri, "exchange": "", "routingKey": name}, ["body"])
    with pytest.raises(WarrenError, match="Spark did not tell which batch of which query this is"):
        list(StreamPublishStep(options)(iter(pa.table({"body": [b"x"]}).to_batches())))
    assert warren.count(name) == 0


def test_confirms_may_come_in_any_order() -> None:
    confirms = Unconfirmed()
    confirms.published = 10
    for tag, multiple, left in ((3, False, 9), (2, True, 7), (7, False, 6), (9, True, 1), (10, False, 0)):
        confirms.answer(tag, multiple)
        assert confirms.outstanding == left


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("key string", "one column body"),
        ("body binary, value binary", "one column body"),
        ("body int", "column body is int"),
        ("body binary, price double", "column price has no place"),
        ("body binary, properties struct<size:int>", "column properties must be a struct of"),
        ("body binary, properties struct<type:string>, type string", "properties and type contradict"),
        ("body binary, headers string", "column headers is string"),
        ("body binary, headers_raw string", "column headers_raw is string"),
        ("body binary, routing_key int", "column routing_key is int"),
    ],
)
def test_columns_that_cannot_be_sent_are_refused(columns: str, said: str) -> None:
    with pytest.raises(WarrenError, match=said):
        check_columns(_struct(columns))


def _struct(ddl: str) -> StructType:
    """Without a session, which parsing would take."""
    from pyspark.sql import types

    known = {
        "binary": types.BinaryType(),
        "string": types.StringType(),
        "int": types.IntegerType(),
        "double": types.DoubleType(),
    }
    struct = StructType()
    for column in ddl.split(", "):
        name, kind = column.split(" ")
        if kind.startswith("struct<"):
            inner, of = kind[7:-1].split(":")
            struct.add(name, StructType().add(inner, known[of]))
        else:
            struct.add(name, known[kind])
    return struct


def test_nothing_is_published_of_no_rows(warren: BrokerUnderTest) -> None:
    options = write_options({"uri": warren.uri, "exchange": "", "routingKey": "k"}, ["body"])
    nothing: Iterator[pa.RecordBatch] = iter(())
    assert publish_rows(options, "q/0/0", nothing).messages == 0


@pytest.mark.parametrize("kind", ["classic", "stream"])
def test_rows_that_are_published_again_under_their_numbers_arrive_once(broker: BrokerUnderTest, kind: str) -> None:
    name = broker.make(kind)
    table = pa.table({"value": numbered(250)})
    options = write_options({"uri": broker.uri, "exchange": "", "routingKey": name, "timeout": "10"}, ["value"])
    place = ("test/query/0", 7 << 32)
    if not broker.is_warren:
        with pytest.raises(WarrenError, match="does not number publishes"):
            publish_rows(options, "query/7/0", iter(table.to_batches()), place)
        return
    for rows in (120, 250, 250):
        done = publish_rows(options, "query/7/0", iter(table.slice(0, rows).to_batches(max_chunksize=100)), place)
        assert done.messages == rows
    if kind == "stream":
        assert [row["body"] for row in read_table(broker, stream=name)] == numbered(250)
    else:
        assert [body for _, _, body in broker.get_all(name)] == numbered(250)
