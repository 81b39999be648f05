"""Columns of basic properties as the wire has them: by column, because by row each of them is an object.

The headers stand between them there, so what comes before and what comes behind are columns of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from warren.amqp import properties as wire
from warren.spark.arrow_values import bytes_value, flags_of, number_value, numbers_of
from warren.spark.property_columns import in_seconds

# In the order of the wire.
_BEFORE: Final = {"content_type": wire.CONTENT_TYPE, "content_encoding": wire.CONTENT_ENCODING}
_BEHIND: Final = {
    "delivery_mode": wire.DELIVERY_MODE,
    "priority": wire.PRIORITY,
    "correlation_id": wire.CORRELATION_ID,
    "reply_to": wire.REPLY_TO,
    "expiration": wire.EXPIRATION,
    "message_id": wire.MESSAGE_ID,
    "timestamp": wire.TIMESTAMP,
    "type": wire.TYPE,
    "user_id": wire.USER_ID,
    "app_id": wire.APP_ID,
    "cluster_id": wire.CLUSTER_ID,
}
_OCTETS: Final = pa.Array.from_buffers(
    pa.binary(), 256, [None, pa.py_buffer(np.arange(257, dtype=np.int32)), pa.py_buffer(bytes(range(256)))]
)
_TIMESTAMP_WIDTH: Final = 8
_ZERO: Final = number_value(np.int64(0), pa.int64())
_NO_BYTES: Final = bytes_value(b"", pa.binary())
_NULL: Final = pa.nulls(1, pa.binary())[0]


class CannotBeSent(Exception):
    """The wire has no room for the value of a row."""

    def __init__(self, row: int, name: str) -> None:
        super().__init__(row, name)
        self.row = row
        self.name = name


class PropertyBytes:
    def __init__(self, columns: Mapping[str, pa.Array], rows: int) -> None:
        self._rows = rows
        self._flags = np.zeros(rows, "<i4")
        self.before = self._joined(columns, _BEFORE)
        self.behind = self._joined(columns, _BEHIND)

    @property
    def flags(self) -> bytes:
        return self._flags.tobytes()

    def _joined(self, columns: Mapping[str, pa.Array], flags: Mapping[str, int]) -> pa.BinaryArray | None:
        """None where no row has any of them."""
        pieces: list[pa.Array] = []
        for name, flag in flags.items():
            column = columns.get(name)
            if column is None or column.null_count == self._rows:
                continue
            self._flags |= np.where(flags_of(column.is_valid()), flag, 0).astype("<i4") if column.null_count else flag
            pieces += _pieces(name, column)
        if not pieces:
            return None
        return pc.binary_join_element_wise(*pieces, _NO_BYTES, null_handling="replace", null_replacement=b"")


def _pieces(name: str, column: pa.Array) -> list[pa.Array]:
    if name == "timestamp":
        return [_long(in_seconds(column))]
    if name in wire.NUMBER_PROPERTIES:
        return [_octet(name, column)]
    return [_octet(name, pc.binary_length(column)), column.cast(pa.binary())]


def _octet(name: str, numbers: pa.Array) -> pa.Array:
    try:
        return _OCTETS.take(numbers)
    except pa.ArrowIndexError as error:
        fits = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, len(_OCTETS)))
        raise CannotBeSent(pc.index(fits, value=False).as_py(), name) from error


def _long(numbers: pa.Array) -> pa.Array:
    """Unsigned on the wire, and a bigint is not: the same bits."""
    values = numbers_of(numbers.cast(pa.int64()).fill_null(_ZERO)).astype(">i8")
    kind = pa.binary(_TIMESTAMP_WIDTH)
    laid_out = pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values.tobytes())]).cast(pa.binary())
    return pc.if_else(numbers.is_valid(), laid_out, _NULL) if numbers.null_count else laid_out
