"""A pipeline's graph, its order and its promises, without Spark."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.serving import run_warren
from tests.spark.pipelines.test_wrong_files import RIGHT
from warren.errors import WarrenError
from warren.spark.pipelines.draw_svg import draw_svg
from warren.spark.pipelines.draw_text import draw_text
from warren.spark.pipelines.graph import order_of_sinks, sources_of
from warren.spark.pipelines.guarantees import AT_LEAST_ONCE, ONCE, guarantees
from warren.spark.pipelines.model import Definition
from warren.spark.pipelines.pipeline import Pipeline
from warren.spark.pipelines.read_file import PipelineMistakes, loads
from warren.spark.pipelines.row_order import publisher_of
from warren.spark.pipelines.tables import start_option

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DEFINITION = loads(RIGHT, "f.yaml", Path("/base"))
CHAIN = """\
pipeline: chain
sources:
  late: {stream: middle}
  early: {queue: start}
sinks:
  last: {from: late, parquet: out}
  first: {from: early, stream: middle}
"""


def test_the_graph_is_drawn_as_a_tree_from_every_source() -> None:
    assert (
        draw_text(DEFINITION)
        == """\
orders  (stream orders, JSON, watermark 10 s on at)
├─ enriched  + customers
│  └─ totals
│     └─▶ publish  (exchange totals, update)
├─▶ keep  (parquet archive)
└─▶ misfits  (stream orders.dead)

customers  (parquet customers, table)
└─ enriched  + orders  (see above)
"""
    )


def test_the_picture_has_every_part_and_every_arrow() -> None:
    root = ElementTree.fromstring(draw_svg(DEFINITION))
    space = "{http://www.w3.org/2000/svg}"
    names = [text.text for text in root.iter(f"{space}text")][::2]
    assert names == ["orders", "customers", "enriched", "totals", "publish", "keep", "dead letters"]
    assert len([path for path in root.iter(f"{space}path") if path.get("marker-end")]) == 5


def test_names_in_the_picture_are_escaped() -> None:
    definition = loads(RIGHT.replace("parquet: archive", "parquet: a<b>&c"), "f.yaml", Path("/base"))
    ElementTree.fromstring(draw_svg(definition))


def test_a_query_that_writes_what_another_reads_is_started_first() -> None:
    assert order_of_sinks(loads(CHAIN, "f.yaml", Path("/base"))) == (["first", "last"], [])


def test_a_query_may_be_told_to_wait_for_another() -> None:
    text = RIGHT.replace("    mode: update", "    mode: update\n    after: keep")
    assert order_of_sinks(loads(text, "f.yaml", Path("/base")))[0] == ["keep", "publish"]


def test_the_sources_of_a_sink_are_found_through_all_views() -> None:
    assert [source.name for source in sources_of(DEFINITION, "totals")] == ["orders", "customers"]


def test_promises_depend_on_what_is_read_and_written() -> None:
    found = {(each.source, each.sink): each.promise for each in guarantees(DEFINITION)}
    assert found == {("orders", "publish"): AT_LEAST_ONCE, ("orders", "keep"): ONCE}


ROWS = """\
pipeline: rows
dead-letters: {queue: rows.dead}
sources:
  orders: {SOURCE}
views:
  wanted: SELECT id, amount FROM orders WHERE amount > 10
  made: SQL
sinks:
  to: {from: made, SINK}
"""


def rows(
    source: str = "stream: orders, SCHEMA",
    sql: str = "SELECT id, explode(array(amount, 1)) AS amount FROM wanted",
    sink: str = "queue: out",
) -> Definition:
    text = ROWS.replace("SOURCE", source).replace("SQL", sql).replace("SINK", sink)
    text = text.replace("SCHEMA", 'schema: "id BIGINT, amount INT"')
    return loads(text, "f.yaml", Path("/base"))


@pytest.mark.parametrize("sink", ["queue: out", "stream: out", "exchange: out", "x-pipeline: out"])
@pytest.mark.parametrize(
    "source",
    [
        "stream: orders, SCHEMA",
        "super-stream: orders, SCHEMA",
        "exchange: orders, key: a, SCHEMA",
        "x-pipeline: orders, SCHEMA",
        "queue: orders, SCHEMA",
    ],
)
def test_what_is_made_row_by_row_of_messages_is_published_exactly_once(source: str, sink: str) -> None:
    (found,) = guarantees(rows(source=source, sink=sink))
    assert found.promise == ONCE
    assert "rows are numbered" in found.reason


@pytest.mark.parametrize("source", ['files: "in/*.json", SCHEMA', "parquet: in, as: stream"])
def test_what_is_made_row_by_row_of_files_is_sorted_and_published_exactly_once(source: str) -> None:
    (found,) = guarantees(rows(source=source))
    assert found.promise == ONCE
    assert "as long as nobody changes them; rows are sorted and numbered" in found.reason


@pytest.mark.parametrize(
    "definition",
    [
        rows(sql="SELECT id, count(*) AS amount FROM wanted GROUP BY id", sink="queue: out, mode: update"),
        rows(sql="SELECT DISTINCT id FROM wanted"),
        rows(sql="SELECT a.id FROM wanted a JOIN wanted b ON a.id = b.id"),
        rows(sql="SELECT id FROM wanted UNION ALL SELECT id FROM orders"),
        rows(sql="SELECT id FROM wanted WHERE rand() < 0.5"),
        rows(sql="SELECT id FROM wanted WHERE id IN (SELECT id FROM orders)"),
        rows(sql="SELECT DISTINCT id FROM wanted", sink="x-pipeline: out"),
        rows(source='files: "in/*.json", SCHEMA', sql="SELECT DISTINCT id FROM wanted"),
        rows(source="queue: orders, SCHEMA, fail-on-data-loss: false"),
        rows(source="stream: orders, SCHEMA, fail-on-data-loss: false"),
        rows(source="format: rate", sql="SELECT id FROM wanted"),
    ],
)
def test_rows_that_may_come_in_another_order_are_not_numbered(definition: Definition) -> None:
    assert {each.promise for each in guarantees(definition)} == {AT_LEAST_ONCE}


def test_another_query_is_another_publisher() -> None:
    names = [
        publisher_of(definition, definition.sinks["to"])
        for definition in (
            rows(),
            rows(sql="SELECT id FROM wanted"),
            rows(source="stream: orders, SCHEMA, min-partitions: 4"),
        )
    ]
    assert len(set(names)) == 3
    # Not so where nothing changes but how much is read at a time, and where it stands in the file.
    same = rows(source="stream: orders, SCHEMA, max-rows: 7")
    assert publisher_of(same, same.sinks["to"]) == names[0]


FORMATS = """\
pipeline: formats
sources:
  ticks: {format: rate, options: {rowsPerSecond: 5}}
  orders: {stream: orders}
sinks:
  files: {from: ticks, format: orc, options: {path: out}}
  rows: {from: orders, format: jdbc, options: {url: "jdbc:x:secret", dbtable: t}}
"""


def test_formats_of_sparks_promise_what_they_can_keep() -> None:
    definition = loads(FORMATS, "f.yaml", Path("/base"))
    found = [(each.source, each.sink, each.promise) for each in guarantees(definition)]
    assert found == [("ticks", "files", ONCE), ("orders", "rows", AT_LEAST_ONCE)]
    files, rows = (each.reason for each in guarantees(definition))
    assert files == (
        "the checkpoint holds the offsets, if rate can be read again from there; "
        "Spark notes beside the files which of them count, and reads no others"
    )
    assert rows.endswith("; a batch that was interrupted is given to jdbc again, as a whole")
    assert definition.options_of(definition.sinks["files"]) == {"path": "/base/out"}
    # Options may hold a password.
    assert "secret" not in draw_text(definition)
    assert "rows  (format jdbc)" in draw_text(definition)


@pytest.mark.parametrize(
    ("start", "option"),
    [
        ("latest", ("startingOffsets", "latest")),
        ("1200", ("startingOffsets", '{"orders": 1200}')),
        ("{orders: 7}", ("startingOffsets", '{"orders": 7}')),
        ("2026-05-01T12:00Z", ("startingTimestamp", "2026-05-01T12:00Z")),
    ],
)
def test_a_stream_may_start_anywhere(start: str, option: tuple[str, str]) -> None:
    text = RIGHT.replace("stream: orders\n", f"stream: orders\n    start: {start}\n    fail-on-data-loss: false\n", 1)
    source = loads(text, "f.yaml", Path("/base")).sources["orders"]
    assert start_option(source.start, "orders") == option
    assert not source.fail_on_data_loss


def test_the_command_draws_and_writes_the_picture(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(RIGHT)
    run = run_warren("pipeline", "plan", "f.yaml", "--svg", "f.svg", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert draw_text(DEFINITION) in run.stdout
    assert "Started in this order: publish, keep" in run.stdout
    assert (tmp_path / "f.svg").read_text() == draw_svg(DEFINITION)
    data = json.loads(run_warren("pipeline", "plan", "f.yaml", "--json", cwd=tmp_path).stdout)
    assert data["order"] == ["publish", "keep"]
    assert data["guarantees"][0]["promise"] == AT_LEAST_ONCE


def test_the_same_pipeline_can_be_built_in_python() -> None:
    built = Pipeline("orders", dead_letters={"stream": "orders.dead"})
    built.source("orders", stream="orders", schema="id BIGINT NOT NULL, customer STRING, amount DOUBLE, at TIMESTAMP",
                 watermark={"column": "at", "delay": "10 seconds"})  # fmt: skip
    built.source("customers", parquet="customers")
    built.view("enriched", "SELECT o.*, c.country FROM orders o JOIN customers c ON o.customer = c.id")

    @built.step("enriched")
    def totals(enriched: DataFrame) -> DataFrame:
        return enriched

    built.sink("publish", "totals", exchange="totals", mode="update")
    built.sink("keep", "orders", parquet="archive")
    assert built.plan() == draw_text(DEFINITION)


def test_a_pipeline_built_in_python_is_checked_as_a_file_is() -> None:
    built = Pipeline("orders").source("orders", stream="orders", max_rows=0).sink("out", "order", console=True)
    with pytest.raises(PipelineMistakes) as found:
        built.definition  # noqa: B018
    assert found.value.lines == [
        'pipeline orders: sink "out": no source or view is called "order"; did you mean "orders"?',
        'pipeline orders: source "orders": "max-rows" must be a whole number of at least 1',
    ]


def test_a_name_can_be_given_only_once_in_python() -> None:
    built = Pipeline("orders").source("orders", stream="orders")
    with pytest.raises(WarrenError, match="a source or view 'orders' is there already"):
        built.view("orders", "SELECT 1")
