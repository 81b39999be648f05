"""What a view's SQL reads is known before Spark starts."""

from __future__ import annotations

import pytest

from warren.spark.pipelines.sql_text import SqlError, read_statement


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT * FROM a", ["a"]),
        ("select * from a where x in (select y from b)", ["a", "b"]),
        ("SELECT * FROM a x, b AS y, (SELECT * FROM c) z, d", ["a", "b", "d", "c"]),
        ("SELECT * FROM a LEFT JOIN b ON a.id = b.id JOIN c USING (id)", ["a", "b", "c"]),
        ("WITH t AS (SELECT * FROM a), u AS (SELECT * FROM t) SELECT * FROM u JOIN b", ["a", "b"]),
        ("SELECT extract(YEAR FROM at), trim(BOTH FROM name) FROM a", ["a"]),
        ("SELECT * FROM a WHERE x IS DISTINCT FROM y AND x IS NOT DISTINCT FROM z", ["a"]),
        ("SELECT 'FROM b' AS x /* FROM c */ FROM a -- FROM d", ["a"]),
        ("SELECT * FROM a LATERAL VIEW explode(items) t AS item", ["a"]),
        ("SELECT * FROM a, LATERAL explode(items)", ["a"]),
        ("SELECT * FROM `my table`", ["my table"]),
        ("SELECT * FROM spark.default.a", ["spark.default.a"]),
        ("SELECT * FROM range(10)", []),
        ("SELECT a.x FROM a UNION ALL SELECT b.x FROM b;", ["a", "b"]),
        ("FROM a SELECT *", ["a"]),
        ("SELECT count(*) FROM (FROM a SELECT *)", ["a"]),
    ],
)
def test_the_tables_of_a_query_are_found(sql: str, tables: list[str]) -> None:
    assert sorted(table.name for table in read_statement(sql).tables) == sorted(tables)


@pytest.mark.parametrize(
    ("sql", "is_grouped"),
    [
        ("SELECT x, count(*) FROM a GROUP BY x", True),
        ("SELECT x FROM a", False),
        ("SELECT 'group by' FROM a", False),
        ("WITH t AS (SELECT x FROM a group\n by x) SELECT * FROM t", True),
    ],
)
def test_grouping_is_seen(sql: str, is_grouped: bool) -> None:
    assert read_statement(sql).is_grouped == is_grouped


@pytest.mark.parametrize(
    ("sql", "reason", "offset"),
    [
        ("", "there is no SQL", 0),
        ("-- nothing", "there is no SQL", 0),
        ("INSERT INTO a", "a view is a query and begins with SELECT or WITH, not with INSERT", 0),
        ("SELECT 1) FROM a", "a ) too much", 8),
        ("SELECT (1 FROM a", "a ( is not closed", 7),
        ('SELECT "x FROM a', 'the quote " is not closed', 7),
        ("SELECT 1 FROM a; SELECT 2", "a view is one query; there is more after the ;", 15),
        ("SELECT x FROM a WHERE", "the query ends with WHERE", 16),
    ],
)
def test_what_is_no_whole_query_is_refused(sql: str, reason: str, offset: int) -> None:
    with pytest.raises(SqlError) as found:
        read_statement(sql)
    assert (found.value.reason, found.value.offset) == (reason, offset)
