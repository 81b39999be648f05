"""Reads the regular expressions of permissions and policies into nodes, with the syntax and the complaints of PCRE.

Left out on purpose is what only backtracking can answer (back references, atomic groups, possessive repeats,
recursion): such a pattern is refused when it is set.
"""

from __future__ import annotations

from typing import Final

from warren.broker.rules.pattern_sets import ANY, ESCAPED_SETS, NAMED_SETS, NOT_NEWLINE, inverted, members_of
from warren.errors import WarrenError

# What a node is.
SET: Final = 0
SEQUENCE: Final = 1
CHOICE: Final = 2
REPEAT: Final = 3
ANCHOR: Final = 4
LOOK: Final = 5

# Anchors.
AT_START: Final = 0
AT_END: Final = 1
AT_VERY_END: Final = 2
AT_LINE_START: Final = 3
AT_LINE_END: Final = 4
AT_WORD_EDGE: Final = 5
INSIDE_WORD: Final = 6

_DEPTH_MAX: Final = 50
_REPEAT_MAX: Final = 65535
_ESCAPED_ANCHORS: Final = {"A": AT_START, "Z": AT_END, "z": AT_VERY_END, "b": AT_WORD_EDGE, "B": INSIDE_WORD}
_ESCAPED_BYTES: Final = {"t": 9, "n": 10, "f": 12, "r": 13, "a": 7, "e": 27}


class PatternError(WarrenError):
    """Not a usable regular expression. `reason` and `position` are those of PCRE where it knows them."""

    def __init__(self, text: str, reason: str, position: int) -> None:
        super().__init__(f"invalid regular expression '{text}': {reason} at position {position}")
        self.reason = reason
        self.position = position


class SyntaxNode:
    def __init__(self, kind: int, parts: list[SyntaxNode], low: int = 0, high: int = 0, members: bytes = b"") -> None:
        self.kind = kind
        self.parts = parts
        # Of a repeat: how often, high < 0 without end. Of an anchor: which, in low.
        # Of a look: low 1 when it must not match; high how many bytes it looks back, < 0 ahead.
        self.low = low
        self.high = high
        # Of a set: 256 bytes, one for each byte it may hold.
        self.members = members

    def width(self) -> int:
        """How many bytes it takes; -1 when that depends."""
        if self.kind == SET:
            return 1
        if self.kind == ANCHOR or self.kind == LOOK:
            return 0
        if self.kind == REPEAT:
            width = self.parts[0].width()
            return -1 if self.low != self.high or width < 0 else self.low * width
        widths = [part.width() for part in self.parts]
        if -1 in widths:
            return -1
        if self.kind == SEQUENCE:
            return sum(widths)
        return widths[0] if min(widths) == max(widths) else -1


class Syntax:
    """Reads one pattern. It is handed in as text of which every character is one byte (Latin-1)."""

    def __init__(self, shown: str, pattern: str) -> None:
        self._shown = shown
        self._pattern = _without_quotes(pattern)
        self._at = 0
        self._depth = 0
        self._ignore_case = False
        self._dot_all = False
        self._multi_line = False

    def read(self) -> SyntaxNode:
        node = self._choice()
        if self._at < len(self._pattern):
            raise self._error("unmatched parentheses")
        return node

    def _error(self, reason: str) -> PatternError:
        return PatternError(self._shown, reason, self._at)

    def _next(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self, text: str) -> bool:
        if not self._pattern.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _choice(self) -> SyntaxNode:
        branches = [self._sequence()]
        while self._take("|"):
            branches.append(self._sequence())
        return branches[0] if len(branches) == 1 else SyntaxNode(CHOICE, branches)

    def _sequence(self) -> SyntaxNode:
        parts: list[SyntaxNode] = []
        while self._next() not in ("", "|", ")"):
            part = self._atom()
            if part is not None:
                parts.append(self._repeated(part))
        return parts[0] if len(parts) == 1 else SyntaxNode(SEQUENCE, parts)

    def _atom(self) -> SyntaxNode | None:
        """None for what takes no place: a comment, a change of flags."""
        start = self._at
        self._refuse_repeat()
        character = self._next()
        self._at += 1
        if character == "(":
            return self._group()
        if character == "[":
            return self._class(start)
        if character == "\\":
            return self._escape()
        if character == ".":
            return SyntaxNode(SET, [], members=ANY if self._dot_all else NOT_NEWLINE)
        if character == "^":
            return SyntaxNode(ANCHOR, [], AT_LINE_START if self._multi_line else AT_START)
        if character == "$":
            return SyntaxNode(ANCHOR, [], AT_LINE_END if self._multi_line else AT_END)
        return self._literal(ord(character))

    def _literal(self, byte: int) -> SyntaxNode:
        return SyntaxNode(SET, [], members=self._folded(members_of([(byte, byte)])))

    def _folded(self, members: bytes) -> bytes:
        if not self._ignore_case:
            return members
        table = bytearray(members)
        for upper in range(0x41, 0xDF):
            # 0x20 apart, but for the multiplication sign between the accented letters.
            if (upper <= 0x5A or upper >= 0xC0) and upper != 0xD7:
                table[upper] = table[upper + 32] = members[upper] | members[upper + 32]
        return bytes(table)

    def _refuse_repeat(self) -> None:
        start = self._at
        if self._next() in ("*", "+", "?"):
            raise self._error("nothing to repeat")
        if self._counts() is not None:
            self._at -= 1
            raise self._error("nothing to repeat")
        self._at = start

    def _repeated(self, part: SyntaxNode) -> SyntaxNode:
        low, high = 0, -1
        if self._take("+"):
            low = 1
        elif self._take("?"):
            high = 1
        elif not self._take("*"):
            counts = self._counts()
            if counts is None:
                return part
            low, high = counts
        # Lazy or greedy: the same names match.
        if not self._take("?") and self._next() == "+":
            raise self._error("possessive repeats are not supported")
        if part.kind == ANCHOR:
            self._at -= 1
            raise self._error("nothing to repeat")
        if part.kind == LOOK:
            low, high = min(low, 1), 1
        return SyntaxNode(REPEAT, [part], low, high)

    def _counts(self) -> tuple[int, int] | None:
        """{n}, {n,} or {n,m}; every other brace stands for itself."""
        closed = self._pattern.find("}", self._at)
        if self._next() != "{" or closed < 0:
            return None
        low, comma, high = self._pattern[self._at + 1 : closed].partition(",")
        if not _is_digits(low) or (high and not _is_digits(high)):
            return None
        self._at = closed
        if max(_number(low), _number(high)) > _REPEAT_MAX:
            raise self._error("number too big in {} quantifier")
        if high and _number(high) < _number(low):
            raise self._error("numbers out of order in {} quantifier")
        self._at = closed + 1
        if not comma:
            return _number(low), _number(low)
        return _number(low), _number(high) if high else -1

    def _group(self) -> SyntaxNode | None:
        if self._take("?#"):
            closed = self._pattern.find(")", self._at)
            if closed < 0:
                raise self._error("missing ) after (?# comment")
            self._at = closed + 1
            return None
        flags = (self._ignore_case, self._dot_all, self._multi_line)
        look = self._look_or_flags()
        if look == "flags":
            return None
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self._error("parentheses are too deeply nested")
        node = self._choice()
        self._depth -= 1
        if not self._take(")"):
            raise self._error("missing )")
        self._ignore_case, self._dot_all, self._multi_line = flags
        # Wrapped: (^)* may be repeated where ^* may not.
        return self._looking(look, node) if look else SyntaxNode(SEQUENCE, [node])

    def _look_or_flags(self) -> str:
        """After an opening parenthesis: which look it begins, "flags" when it held only those, else empty."""
        if not self._take("?"):
            return ""
        for look in ("=", "!", "<=", "<!"):
            if self._take(look):
                return look
        if self._take("P<") or self._take("<"):
            return self._skip_name(">")
        if self._take("'"):
            return self._skip_name("'")
        return self._flags()

    def _skip_name(self, end: str) -> str:
        closed = self._pattern.find(end, self._at)
        name = self._pattern[self._at : closed]
        if closed < 0 or not name.isidentifier():
            raise self._error("syntax error in subpattern name (missing terminator)")
        self._at = closed + 1
        return ""

    def _flags(self) -> str:
        on = True
        while True:
            if self._take(")"):
                return "flags"
            if self._take(":"):
                return ""
            if self._take("-"):
                on = False
            elif self._take("i"):
                self._ignore_case = on
            elif self._take("s"):
                self._dot_all = on
            elif self._take("m"):
                self._multi_line = on
            else:
                raise self._error("unrecognized character after (? or (?-")

    def _looking(self, look: str, node: SyntaxNode) -> SyntaxNode:
        negated = 1 if look.endswith("!") else 0
        if not look.startswith("<"):
            return SyntaxNode(LOOK, [node], negated, -1)
        branches = node.parts if node.kind == CHOICE else [node]
        looks: list[SyntaxNode] = []
        for branch in branches:
            if branch.width() < 0:
                self._at -= 1
                raise self._error("lookbehind assertion is not fixed length")
            looks.append(SyntaxNode(LOOK, [branch], negated, branch.width()))
        # Any of them must be there; none of them may be.
        return SyntaxNode(SEQUENCE if negated else CHOICE, looks)

    def _escape(self) -> SyntaxNode:
        character = self._next()
        if character in ESCAPED_SETS:
            self._at += 1
            return SyntaxNode(SET, [], members=ESCAPED_SETS[character])
        if character in _ESCAPED_ANCHORS:
            self._at += 1
            return SyntaxNode(ANCHOR, [], _ESCAPED_ANCHORS[character])
        if character == "N":
            self._at += 1
            return SyntaxNode(SET, [], members=NOT_NEWLINE)
        return self._literal(self._escaped_byte())

    def _escaped_byte(self) -> int:
        character = self._next()
        if not character:
            raise self._error("\\ at end of pattern")
        self._at += 1
        if character in _ESCAPED_BYTES:
            return _ESCAPED_BYTES[character]
        if character == "x":
            return self._hexadecimal()
        if character == "0":
            return self._digits_of(8, 2)
        if character.isascii() and character.isalnum():
            raise self._error(f"\\{character} is not supported")
        return ord(character)

    def _hexadecimal(self) -> int:
        if not self._take("{"):
            return self._digits_of(16, 2)
        byte = self._digits_of(16, 8)
        if byte > 255:
            raise self._error("character value in \\x{} or \\o{} is too large")
        if not self._take("}"):
            raise self._error("missing terminating } for hexadecimal character")
        return byte

    def _digits_of(self, base: int, most: int) -> int:
        value = 0
        for _ in range(most):
            digit = "0123456789abcdef".find(self._next().lower() or "-")
            if not 0 <= digit < base:
                break
            value = value * base + digit
            self._at += 1
        return value

    def _class(self, start: int) -> SyntaxNode:
        for mark in (":", ".", "="):
            # Outside of a class these read as one: most likely [[:alpha:]] was meant.
            if (
                self._next() == mark
                and self._pattern.find(mark + "]", self._at + 1) == self._pattern.find("]", start) - 1
            ):
                self._at = start
                raise self._error("POSIX named classes are supported only within a class")
        negated = self._take("^")
        members = bytearray(256)
        first = True
        while first or self._next() != "]":
            if not self._next():
                raise self._error("missing terminating ] for character class")
            self._class_item(members)
            first = False
        self._at += 1
        folded = self._folded(bytes(members))
        return SyntaxNode(SET, [], members=inverted(folded) if negated else folded)

    def _class_item(self, members: bytearray) -> None:
        whole = self._class_set()
        if whole is not None:
            _join(members, whole)
            return
        low = self._class_byte()
        if self._next() != "-" or self._pattern[self._at + 1 : self._at + 2] in ("", "]"):
            members[low] = 1
            return
        self._at += 1
        if self._class_set() is not None:
            self._at -= 1
            raise self._error("invalid range in character class")
        high = self._class_byte()
        if high < low:
            self._at -= 1
            raise self._error("range out of order in character class")
        _join(members, members_of([(low, high)]))

    def _class_set(self) -> bytes | None:
        if self._next() == "\\":
            escaped = ESCAPED_SETS.get(self._pattern[self._at + 1 : self._at + 2])
            if escaped is not None:
                self._at += 2
            return escaped
        closed = self._pattern.find(":]", self._at)
        if not self._pattern.startswith("[:", self._at) or closed < 0:
            return None
        name = self._pattern[self._at + 2 : closed]
        negated = name.startswith("^")
        members = NAMED_SETS.get(name[1:] if negated else name)
        if members is None:
            self._at += 2
            raise self._error("unknown POSIX class name")
        self._at = closed + 2
        return inverted(members) if negated else members

    def _class_byte(self) -> int:
        character = self._next()
        if not character:
            raise self._error("missing terminating ] for character class")
        self._at += 1
        if character != "\\":
            return ord(character)
        return 8 if self._take("b") else self._escaped_byte()


def _without_quotes(pattern: str) -> str:
    """\\Q...\\E, which takes everything between literally, spelled out."""
    if "\\Q" not in pattern and "\\E" not in pattern:
        return pattern
    plain: list[str] = []
    quoting = False
    at = 0
    while at < len(pattern):
        pair = pattern[at : at + 2]
        at += 2
        if pair == "\\E":
            quoting = False
        elif quoting:
            at -= 1
            plain.append(pair[0] if pair[0].isalnum() else "\\" + pair[0])
        elif pair == "\\Q":
            quoting = True
        elif pair[0] == "\\":
            plain.append(pair)
        else:
            at -= 1
            plain.append(pair[0])
    return "".join(plain)


def _join(members: bytearray, more: bytes) -> None:
    for byte in range(256):
        members[byte] |= more[byte]


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _number(digits: str) -> int:
    # Only as many as it takes to see that it is too large.
    return int(digits[:8]) if digits else 0
