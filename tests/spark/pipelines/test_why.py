"""Why a message does not fit is told in words about the message."""

from __future__ import annotations

import pytest

from warren.spark.pipelines.schema_text import parse_schema
from warren.spark.pipelines.why import why
from warren.spark.spark_errors import one_line

FIELDS = parse_schema(
    "id BIGINT NOT NULL, amount DOUBLE, small TINYINT, ok BOOLEAN, at TIMESTAMP, day DATE, name STRING, "
    "tags ARRAY<STRING>, lines ARRAY<STRUCT<n: INT>>, sizes MAP<STRING, INT>, who STRUCT<age: INT>"
)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "the body is empty"),
        (b"  ", "the body is empty"),
        (b"abc\xff", "the body is not UTF-8: byte 3 is 0xff"),
        (b"nonsense", "the body is not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b'{"id": 1', "the body is not JSON: Expecting ',' delimiter: line 1 column 9 (char 8)"),
        (b"[1]", "the body is JSON, but an array and not an object"),
        (b"7", "the body is JSON, but a number and not an object"),
        (b"null", "the body is JSON, but null and not an object"),
        (b"{}", "the field id is missing"),
        (b'{"id": null}', "the field id is missing"),
        (b'{"id": "x"}', 'the field id is "x", which is no BIGINT'),
        (b'{"id": 9223372036854775808}', "the field id is 9223372036854775808, which is no BIGINT"),
        (b'{"id": 1, "small": 200}', "the field small is 200, which is no TINYINT"),
        (b'{"id": 1, "amount": true}', "the field amount is true, which is no DOUBLE"),
        (b'{"id": 1, "ok": "yes"}', 'the field ok is "yes", which is no BOOLEAN'),
        (b'{"id": 1, "at": "soon"}', 'the field at is "soon", which is no TIMESTAMP'),
        (b'{"id": 1, "day": "2026-13-01"}', 'the field day is "2026-13-01", which is no DATE'),
        (b'{"id": 1, "tags": "a"}', 'the field tags is "a", which is no ARRAY'),
        (b'{"id": 1, "lines": [{"n": 1}, {"n": "two"}]}', 'the field lines[1].n is "two", which is no INT'),
        (b'{"id": 1, "sizes": {"s": "big"}}', 'the field sizes.s is "big", which is no INT'),
        (b'{"id": 1, "sizes": []}', "the field sizes is [], which is no MAP"),
        (b'{"id": 1, "who": {"age": "old"}}', 'the field who.age is "old", which is no INT'),
        (b'{"id": "' + b"x" * 80 + b'"}', f'the field id is "{"x" * 58}…, which is no BIGINT'),
        (b'{"id": 1, "name": 5}', "the body does not fit the schema"),
    ],
)
def test_the_reason_names_the_field_and_its_value(body: bytes, reason: str) -> None:
    assert why(body, FIELDS) == reason


def test_a_body_that_is_nested_without_end_has_a_reason_too() -> None:
    assert why(b"[" * 100_000, FIELDS).startswith("the body is not JSON")


PROXY = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "x.py", line 1, in call
pyspark.errors.SparkRuntimeException: [USER_RAISED] too late SQLSTATE: P1
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[NOT_FOUND] no such table\n SQLSTATE: 42P01", "[NOT_FOUND] no such table"),
        (PROXY, "[USER_RAISED] too late"),
        (
            "Job aborted\nTraceback (most recent call last):\nwarren.errors.WarrenError: no broker at x:1\n\tat java",
            "no broker at x:1",
        ),
        ("", "ValueError"),
    ],
)
def test_an_error_of_sparks_is_told_in_one_line(text: str, line: str) -> None:
    assert one_line(ValueError(text)) == line
