"""Columns that a query names and that are not there, told without Spark; and never of a query that is right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from warren.spark.pipelines.graph import columns_of
from warren.spark.pipelines.read_file import load
from warren.spark.pipelines.sql_columns import columns_of_query, missing_in_expression, missing_in_query

TABLES = {
    "orders": frozenset(("id", "amount", "at", "customer", "tags", "envelope")),
    "customers": frozenset(("id", "country", "day")),
}


def missing(sql: str) -> list[str]:
    return [each.name for each in missing_in_query(sql, lambda name: TABLES.get(name.lower()))]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT sum(amuont) FROM orders", ["amuont"]),
        ("SELECT id, amont total FROM orders o WHERE o.amonut > 3 GROUP BY nothing", ["amont", "amonut", "nothing"]),
        ("SELECT o.id FROM orders o JOIN customers c ON o.customer = c.idd", ["idd"]),
        ("SELECT `amuont` FROM orders", ["amuont"]),
        ("SELECT id FROM orders ORDER BY idd DESC", ["idd"]),
        ("SELECT CASE WHEN amuont > 1 THEN 2 END AS n FROM orders", ["amuont"]),
    ],
)
def test_a_column_that_is_not_there_is_found(sql: str, expected: list[str]) -> None:
    assert missing(sql) == expected


RIGHT = """
SELECT * FROM orders
SELECT o.*, c.country FROM orders o LEFT OUTER JOIN customers AS c USING (id)
SELECT count(*) FILTER (WHERE amount > 1) AS n, id FROM orders GROUP BY id HAVING n > 1 ORDER BY n DESC NULLS LAST
SELECT window.start AS began, sum(amount) FROM orders GROUP BY window(at, '1 minute')
SELECT CAST(amount AS DECIMAL(10, 2)) price, at + INTERVAL 5 MINUTES later, price * 2 FROM orders
SELECT CAST(tags AS ARRAY<STRUCT<a: INT, b: MAP<STRING, INT>>>) AS t FROM orders
SELECT EXTRACT(YEAR FROM at) AS y, DATE '2026-01-01' AS d, current_date AS today, X'1F' FROM orders
SELECT envelope.headers['x'] AS x, envelope.properties.message_id, tags[0] FROM orders
SELECT row_number() OVER (PARTITION BY customer ORDER BY at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM orders
SELECT sum(amount) OVER w FROM orders WINDOW w AS (PARTITION BY customer)
SELECT transform(tags, t -> upper(t)) AS t FROM orders
SELECT id, u FROM orders LATERAL VIEW explode(tags) v AS u
SELECT x.id FROM (SELECT id FROM orders) x
WITH a AS (SELECT id AS n FROM orders) SELECT n FROM a
SELECT id FROM orders UNION ALL SELECT id FROM customers
SELECT explode(map('a', id)) AS (k, v) FROM orders
SELECT posexplode(tags) FROM orders
SELECT if(amount IS NOT DISTINCT FROM 3, NULL, true) AS same, NOT id IN (1, 2) FROM orders
SELECT day d, year(at) FROM orders, customers WHERE country COLLATE UTF8_LCASE = 'de'
SELECT timestampdiff(HOUR, at, current_timestamp()) AS hours FROM orders
SELECT trim(BOTH 'x' FROM customer) AS c, position('a' IN customer) p, substring(customer FROM 2 FOR 3) FROM orders
SELECT id FROM unknown_table WHERE anything = 1
SELECT id, 1.5e3 AS factor, 2L AS two, .5 half FROM orders WHERE amount RLIKE '^1' OR amount LIKE 'a' ESCAPE 'b'
SELECT envelope:a.b, id FROM orders
SELECT mask(customer, upperChar => 'X') AS masked FROM orders
SELECT id FROM range(10) AS t(id)
""".strip().splitlines()


@pytest.mark.parametrize("sql", RIGHT)
def test_nothing_is_said_of_a_query_that_is_right(sql: str) -> None:
    assert missing(sql) == []


def test_expressions_name_columns_too() -> None:
    columns = TABLES["orders"]
    assert [each.name for each in missing_in_expression("amuont > 0 AND id IS NOT NULL", columns)] == ["amuont"]
    assert missing_in_expression("exists(tags, t -> t = 'x') AND size(tags) < 3", columns) == []


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT id, o.amount AS total, upper(customer) name FROM orders o", {"id", "total", "name"}),
        ("SELECT * FROM customers", {"id", "country", "day"}),
        ("SELECT c.*, envelope.routing_key FROM orders, customers c", {"id", "country", "day", "routing_key"}),
        ("SELECT sum(amount) FROM orders", None),
        ("SELECT inline(tags) FROM orders", None),
        ("SELECT * FROM unknown", None),
    ],
)
def test_the_columns_of_a_view_are_known_where_they_are_certain(sql: str, columns: set[str] | None) -> None:
    found = columns_of_query(sql, lambda name: TABLES.get(name.lower()))
    assert (None if found is None else set(found)) == columns


def test_nothing_is_said_of_the_examples() -> None:
    """Each is run with Spark by another test, so each is right."""
    files = sorted(Path(__file__).parents[3].glob("examples/**/*.yaml"))
    known = []
    for file in files:
        if re.search("^pipeline:", file.read_text(), re.MULTILINE):
            definition = load(file, dict.fromkeys(("STATE", "TABLE", "LIMITS", "DATA"), "x"))
            known += [name for name in definition.views if columns_of(definition, name) is not None]
    assert "visits" in known
