"""The examples are right as they stand, and the shop of `make run` sends what its pipeline expects. No Spark needed."""

from __future__ import annotations

import importlib.util
import json
import time
from collections import Counter
from pathlib import Path
from types import ModuleType

import pyarrow.parquet as parquet
import pytest

from tests.spark.broker_under_test import BrokerUnderTest
from warren.spark.pipelines.read_file import load
from warren.spark.pipelines.schema_text import parse_schema
from warren.spark.pipelines.why import why

EXAMPLES = Path(__file__).parents[3] / "examples"
FILES = sorted([*EXAMPLES.glob("pipelines/*.yaml"), EXAMPLES / "demo" / "orders.yaml"])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_is_a_pipeline_without_any_variable_set(file: Path) -> None:
    assert load(file, {}).sinks


def demo(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / "demo" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_most_orders_of_the_shop_fit_and_some_do_not() -> None:
    fields = parse_schema(load(EXAMPLES / "demo" / "orders.yaml", {}).sources["orders"].schema)
    module = demo("generator")
    bodies = [module.order(number) for number in range(2000)]
    good = [body for body in bodies if body not in module.WRONG]
    # Asked about a body that fits, it finds no field to blame.
    assert Counter(why(body, fields) for body in good) == {"the body does not fit the schema": len(good)}
    assert 1900 < len(good) < 2000
    assert {json.loads(body)["product"] for body in good} == set(module.PRODUCTS)
    assert all("does not fit the schema" not in why(body, fields) for body in module.WRONG)


def test_the_shop_publishes_until_it_is_stopped(warren: BrokerUnderTest, tmp_path: Path) -> None:
    module = demo("generator")
    with warren.channel() as channel:
        channel.exchange_declare("shop", "topic", durable=True)
        channel.queue_declare("seen")
        channel.queue_bind("seen", "shop", "order.placed")
    shop = module.Generator(warren.uri, 500)
    shop.start()
    while shop.published < 20:
        assert shop.is_alive()
    shop.stop()
    assert not shop.is_alive()
    assert len(warren.get_all("seen")) == shop.published
    module.write_customers(tmp_path / "customers")
    table = parquet.read_table(tmp_path / "customers" / "customers.parquet")
    assert table.column_names == ["id", "name", "country"]
    assert table.num_rows == module.CUSTOMERS


def test_the_totals_that_come_last_are_shown(warren: BrokerUnderTest) -> None:
    module = demo("totals")
    totals = module.Totals(warren.uri)
    totals.start()
    deadline = time.monotonic() + 30
    with warren.channel() as channel:
        channel.exchange_declare("totals", "topic", durable=True)
        # Until the first has come, the queue may not be bound yet.
        while not totals.received:
            assert time.monotonic() < deadline
            channel.basic_publish("totals", "total.DE", b'{"country": "DE", "total": 1}')
        channel.basic_publish("totals", "total.DE", b'{"country": "DE", "total": 2}')
        channel.basic_publish("totals", "total.FR", b'{"country": "FR", "total": 3}')
    while "FR" not in totals.newest:
        assert time.monotonic() < deadline
    assert {country: row["total"] for country, row in totals.newest.items()} == {"DE": 2, "FR": 3}
    totals.stop()
