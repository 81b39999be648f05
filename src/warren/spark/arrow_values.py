"""Arrow's arrays of numpy's, numpy's of Arrow's, and single values.

Arrow's own functions for these look whether what they are given is of pandas, and import that to know: half a second
for each Python process of Spark's, which needs it for nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

Numbers = np.ndarray[Any, Any]


def array_of(numbers: Numbers, kind: pa.DataType, is_absent: Numbers | None = None) -> pa.Array:
    """The numbers must be as wide as `kind`."""
    present = None if is_absent is None else pa.py_buffer(_bits(~is_absent))
    return pa.Array.from_buffers(kind, len(numbers), [present, pa.py_buffer(np.ascontiguousarray(numbers))])


def array_of_flags(flags: Numbers) -> pa.Array:
    return pa.Array.from_buffers(pa.bool_(), len(flags), [None, pa.py_buffer(_bits(flags))])


def numbers_of(array: pa.Array) -> Numbers:
    """Of an array without nulls: a view."""
    return np.from_dlpack(array)


def flags_of(array: pa.Array) -> Numbers:
    return numbers_of(array.cast(pa.uint8())).view(np.bool_)


def number_value(number: np.integer[Any], kind: pa.DataType) -> pa.Scalar:
    return array_of(np.array([number]), kind)[0]


def bytes_value(value: bytes, kind: pa.DataType) -> pa.Scalar:
    """Of bytes, or of text with these bytes."""
    ends = pa.py_buffer(np.array([0, len(value)], np.int32))
    return pa.Array.from_buffers(kind, 1, [None, ends, pa.py_buffer(value)])[0]


def _bits(flags: Numbers) -> Numbers:
    return np.packbits(flags, bitorder="little")
