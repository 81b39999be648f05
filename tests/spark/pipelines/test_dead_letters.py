"""What a pipeline puts aside is kept: through a restart of the broker, once, and it can go back where it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.spark.broker_under_test import BrokerUnderTest
from tests.spark.test_streams import read_table
from warren import Broker
from warren.errors import WarrenError
from warren.spark.arrow_schema import ARROW
from warren.spark.folders import Share
from warren.spark.jobs.redrive import Redrive
from warren.spark.pipelines.dead_letters import DeadLetterWriter
from warren.spark.pipelines.misfits import Aside
from warren.spark.pipelines.model import DeadLetterPlace, Definition, SinkKind, Source, SourceKind
from warren.spark.pipelines.topology import declare


def put_aside(definition: Definition, envelopes: pa.StructArray) -> None:
    """As a task does."""
    assert definition.dead_letters is not None
    writer = DeadLetterWriter(Aside(definition.name, "orders", (), definition.dead_letters, definition.broker))
    writer.add(envelopes, ["no order"] * len(envelopes))
    writer.finish()


def envelopes_of(node: BrokerUnderTest, stream: str) -> pa.StructArray:
    table = pa.Table.from_pylist(read_table(node, stream=stream), schema=ARROW)
    return table.to_struct_array().combine_chunks()


def pipeline_on(node: BrokerUnderTest, stream: str) -> Definition:
    source = Source("orders", SourceKind.STREAM, stream, body="json", schema="id BIGINT", max_rows=5000)
    place = DeadLetterPlace(SinkKind.QUEUE, f"{stream}.misfits")
    return Definition("p", Path(), broker=node.uri, sources={"orders": source}, dead_letters=place)


def test_letters_outlive_a_restart_and_go_back_to_where_they_were(tmp_path: Path) -> None:
    with Broker(data_dir=str(tmp_path)) as broker:
        node = BrokerUnderTest(broker.url, is_warren=True)
        stream = node.make()
        # Without a delivery mode, as most clients publish.
        node.publish(stream, [b"%d" % number for number in range(20)])
        definition = pipeline_on(node, stream)
        declare(definition)
        put_aside(definition, envelopes_of(node, stream))
        broker.restart()
        assert node.count(f"{stream}.misfits") == 20
        summary = Redrive(f"{stream}.misfits", broker.url).run().as_data()
        assert (summary["targets"], summary["left"]) == ({stream: 20}, {})
        again: list[Any] = read_table(node, stream=stream)[20:]
        assert [row["body"] for row in again] == [b"%d" % number for number in range(20)]
        assert {row["properties"]["delivery_mode"] for row in again} == {2}
        assert not [name for row in again for name, _ in row["headers"] if name.startswith("x-misfit-")]


def test_a_batch_that_is_done_again_puts_nothing_aside_twice(warren: BrokerUnderTest) -> None:
    stream = warren.make()
    warren.publish(stream, [b"%d" % number for number in range(2000)])
    definition = pipeline_on(warren, stream)
    declare(definition)
    # Killed, and begun again with the whole batch.
    envelopes = envelopes_of(warren, stream)
    put_aside(definition, envelopes.slice(0, 1500))
    put_aside(definition, envelopes)
    assert warren.count(f"{stream}.misfits") == 2000


def test_a_folder_that_is_not_the_drivers_is_refused(tmp_path: Path) -> None:
    share = Share(str(tmp_path / "letters"), "p.orders")
    share.check()
    # What an executor of another machine would find.
    (tmp_path / "letters").rename(tmp_path / "elsewhere")
    with pytest.raises(WarrenError, match=r"letters is not shared: the executor on .* has another folder of that name"):
        share.check()
    Share(str(tmp_path / "letters"), "p.orders")
    with pytest.raises(WarrenError, match=r"letters is not shared"):
        share.check()
