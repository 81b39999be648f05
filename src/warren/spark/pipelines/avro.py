"""Bodies in Avro: the schema as Spark's, and a step that decodes them, with a reason for each that cannot be.

A body is one record in Avro's binary encoding, as `fastavro.schemaless_writer` or a `GenericDatumWriter` writes it.
fastavro is imported where it is needed: nobody else has to install it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from warren.extras import how_to_install
from warren.spark.pipelines.schema_text import SchemaError, quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_SIMPLE: Final = {
    "boolean": "BOOLEAN", "int": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE", "string": "STRING",
    "bytes": "BINARY", "enum": "STRING", "fixed": "BINARY",
}  # fmt: skip
_LOGICAL: Final = {
    "date": "DATE",
    "timestamp-millis": "TIMESTAMP",
    "timestamp-micros": "TIMESTAMP",
    "local-timestamp-millis": "TIMESTAMP_NTZ",
    "local-timestamp-micros": "TIMESTAMP_NTZ",
    "uuid": "STRING",
}


def ddl_of(text: str) -> str:
    """An Avro schema as Spark writes schemas; SchemaError says what is wrong with it."""
    parsed = _understood(text, is_expanded=True)
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise SchemaError("an Avro schema for messages is a record: fields become columns")
    if not parsed.get("fields"):
        raise SchemaError("the record has no fields")
    return ", ".join(f"{quoted(each['name'])} {_type(each['type'], [parsed['name']])}" for each in parsed["fields"])


def parsed_schema(text: str) -> Any:
    """As fastavro wants it for reading."""
    return _understood(text, is_expanded=False)


def _understood(text: str, is_expanded: bool) -> Any:
    """Expanded, names of types are replaced by what they stand for."""
    try:
        from fastavro.schema import SchemaParseException, UnknownType, expand_schema, parse_schema
    except ImportError as error:
        raise SchemaError(f"Avro needs the package fastavro: {how_to_install('avro')}") from error
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise SchemaError(f"an Avro schema is JSON: {error}") from error
    try:
        return expand_schema(schema) if is_expanded else parse_schema(schema)
    except UnknownType as error:
        raise SchemaError(f'the unknown type "{error.name}"') from error
    except SchemaParseException as error:
        raise SchemaError(str(error)) from error
    except KeyError as error:
        raise SchemaError(f'a type lacks "{error.args[0]}"') from error
    except (TypeError, AttributeError) as error:
        # fastavro looks no closer: a number where a type, a list or a mapping should be.
        raise SchemaError(f"this is no Avro schema: {error}") from error


def _type(schema: Any, within: list[str]) -> str:
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if len(others) != 1:
            raise SchemaError('a union is of "null" and one other type; Spark has no column of several types')
        return _type(others[0], within)
    if isinstance(schema, str):
        if schema in within:
            raise SchemaError(f'"{schema}" holds itself, and Spark has no type without an end')
        return _SIMPLE[schema]
    logical = schema.get("logicalType")
    if logical == "decimal":
        return f"DECIMAL({schema['precision']},{schema.get('scale', 0)})"
    if logical is not None:
        if logical not in _LOGICAL:
            raise SchemaError(f'the logical type "{logical}" has no type in Spark')
        return _LOGICAL[logical]
    kind = schema["type"]
    if kind == "record":
        inner = [*within, schema["name"]]
        fields = ", ".join(f"{quoted(each['name'])}: {_type(each['type'], inner)}" for each in schema["fields"])
        return f"STRUCT<{fields}>"
    if kind == "array":
        return f"ARRAY<{_type(schema['items'], within)}>"
    if kind == "map":
        return f"MAP<STRING, {_type(schema['values'], within)}>"
    return _type(kind, within)


def with_decoded(frame: DataFrame, text: str, ddl: str, value: str, reason: str) -> DataFrame:
    """The frame with a column `value`: the fields of its bodies, and `reason` where a body has none."""
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import StructField, StructType

    kind = StructType.fromDDL(f"{ddl}, {quoted(reason)} STRING")
    decode = _decoder(text, value, reason, to_arrow_type(kind, timezone="UTC"))
    return frame.mapInArrow(decode, StructType([*frame.schema.fields, StructField(value, kind)]))


def _decoder(
    text: str, value: str, reason: str, kind: pa.DataType
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = parsed_schema(text)
        for batch in batches:
            rows = [_record(body, schema, reason) for body in batch.column("body").to_pylist()]
            yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(rows, kind)], names=[*batch.schema.names, value])

    return decode


def _record(body: bytes | None, schema: Any, reason: str) -> dict[str, Any]:
    from fastavro import schemaless_reader

    data = io.BytesIO(body or b"")
    try:
        record = schemaless_reader(data, schema, None)
    except Exception as error:  # noqa: BLE001 - any bytes may come, and fastavro raises whatever they lead it to
        return {reason: f"the body is not Avro of this schema: {_words(error)}"}
    assert isinstance(record, dict)
    left = len(data.getbuffer()) - data.tell()
    if left:
        return {reason: f"the body is not Avro of this schema: {left} bytes are left behind the record"}
    return record


def _words(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "it ends too early"
    return (str(error) or type(error).__name__).splitlines()[0]
