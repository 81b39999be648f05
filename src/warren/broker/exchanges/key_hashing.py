"""Hashes of keys that every process, restart and Spark worker agrees on, as Python's own hash() does not.

All arithmetic stays below 2**62, so that it is the same compiled (machine integers) and interpreted.
"""

from __future__ import annotations

import zlib
from typing import Final

from mypy_extensions import i64

HASH_BITS: Final = 31
_MASK: Final = 0x7FFFFFFF


def hash_bytes(data: bytes) -> i64:
    """31 bits of a checksum: unequal for unequal data, mostly, but not yet evenly spread. See `mix`."""
    checksum: i64 = zlib.crc32(data)
    return checksum & _MASK


def hash_text(text: str) -> i64:
    # surrogatepass: names that came in as bytes of no encoding must hash too, and nothing may raise here.
    return hash_bytes(text.encode(errors="surrogatepass"))


def mix(value: i64) -> i64:
    """Spread 31 bits evenly over 31 bits; one to one."""
    value ^= value >> 15
    value = (value * 0x2C1B3C6D) & _MASK
    value ^= value >> 12
    value = (value * 0x297A2D39) & _MASK
    value ^= value >> 15
    return value
