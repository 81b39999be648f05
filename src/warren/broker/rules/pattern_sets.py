"""Sets of bytes that regular expressions name: \\w, [:alpha:] and the like, each as 256 bytes of 0 or 1."""

from __future__ import annotations

from typing import Final


def members_of(spans: list[tuple[int, int]]) -> bytes:
    table = bytearray(256)
    for first, last in spans:
        for byte in range(first, last + 1):
            table[byte] = 1
    return bytes(table)


def inverted(members: bytes) -> bytes:
    return bytes([1 - member for member in members])


# Latin-1, which Erlang's PCRE assumes where nothing else is said.
_LETTERS: Final = [(0x41, 0x5A), (0x61, 0x7A), (0xAA, 0xAA), (0xB5, 0xB5), (0xBA, 0xBA), (0xC0, 0xD6), (0xD8, 0xF6)]
_DIGITS: Final = [(0x30, 0x39)]
_SIGNS: Final = [(0xA0, 0xA9), (0xAB, 0xB4), (0xB6, 0xB9), (0xBB, 0xBF), (0xD7, 0xD7), (0xF7, 0xF7)]
WORD: Final = members_of(_LETTERS + _DIGITS + [(0xF8, 0xFF), (0x5F, 0x5F)])
_SPACE: Final = members_of([(9, 13), (32, 32)])
ANY: Final = members_of([(0, 255)])
NOT_NEWLINE: Final = members_of([(0, 9), (11, 255)])

ESCAPED_SETS: Final[dict[str, bytes]] = {
    "d": members_of(_DIGITS),
    "w": WORD,
    "s": _SPACE,
    "h": members_of([(9, 9), (0x20, 0x20), (0xA0, 0xA0)]),
    "v": members_of([(10, 13), (0x85, 0x85)]),
    "D": inverted(members_of(_DIGITS)),
    "W": inverted(WORD),
    "S": inverted(_SPACE),
    "H": inverted(members_of([(9, 9), (0x20, 0x20), (0xA0, 0xA0)])),
    "V": inverted(members_of([(10, 13), (0x85, 0x85)])),
}
NAMED_SETS: Final[dict[str, bytes]] = {
    "alpha": members_of([*_LETTERS, (0xF8, 0xFF)]),
    "alnum": members_of([*_LETTERS, *_DIGITS, (0xF8, 0xFF)]),
    "word": WORD,
    "digit": members_of(_DIGITS),
    "xdigit": members_of([*_DIGITS, (0x41, 0x46), (0x61, 0x66)]),
    "upper": members_of([(0x41, 0x5A), (0xC0, 0xD6), (0xD8, 0xDE)]),
    "lower": members_of([(0x61, 0x7A), (0xAA, 0xAA), (0xB5, 0xB5), (0xBA, 0xBA), (0xDF, 0xF6), (0xF8, 0xFF)]),
    "space": _SPACE,
    "blank": members_of([(9, 9), (32, 32)]),
    "cntrl": members_of([(0, 0x1F), (0x7F, 0x9F)]),
    "print": members_of([(0x20, 0x7E), (0xA0, 0xFF)]),
    "graph": members_of([(0x21, 0x7E), (0xA0, 0xFF)]),
    "punct": members_of([(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E), *_SIGNS]),
}
