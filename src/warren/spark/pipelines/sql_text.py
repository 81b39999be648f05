"""What can be said of a view's SQL without Spark: its tables, whether it groups, and whether it is whole.

Not a parser. It splits the text into tokens, and a FROM counts when its parenthesis also holds a SELECT.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(
    r"(?P<space>\s+|--[^\n]*|/\*.*?\*/)"
    r"|(?P<text>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<quoted>`(?:[^`]|``)+`)"
    r"|(?P<word>\w+)"
    r"|(?P<sign>.)",
    re.DOTALL,
)
_BEGINNINGS: Final = {"select", "with", "from", "values", "table", "("}
# What may follow a table and is no alias.
_AFTER_TABLE: Final = {
    "where", "group", "having", "order", "limit", "join", "inner", "left", "right", "full", "cross", "on", "using",
    "union", "intersect", "except", "minus", "lateral", "window", "semi", "anti", "natural", "tablesample", "pivot",
    "unpivot", "cluster", "distribute", "sort", "select", "qualify", "offset",
}  # fmt: skip


# What cannot stand at the end. A star can: count(*), SELECT *.
_WANTING: Final = {
    "select", "from", "where", "by", "and", "or", "not", "join", "on", "in", "is", "like", "between", "when", "then",
    "else", "case", "as", "having",
}  # fmt: skip
_SIGNS: Final = {"+", "-", "/", "%", "<", ">", "=", "!", "|", "&", "^", "~"}
_NEXT: Final = {"from", "where", "group", "having", "order", "limit", "and", "or", "then", "else", "end", "join"}


class SqlError(ValueError):
    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    offset: int

    @property
    def word(self) -> str:
        """Lower case, and empty for what is quoted."""
        return self.text.lower() if self.kind in ("word", "sign") else ""

    @property
    def name(self) -> str:
        return self.text[1:-1].replace("``", "`") if self.kind == "quoted" else self.text


class Table(NamedTuple):
    name: str
    offset: int


class Statement(NamedTuple):
    tables: tuple[Table, ...]
    is_grouped: bool


def read_statement(sql: str) -> Statement:
    tokens = tokens_of(sql)
    _check_whole(tokens)
    local = _common_tables(tokens)
    tables = [table for table in _tables(tokens) if table.name.lower() not in local]
    words = [token.word for token in tokens]
    is_grouped = any(pair == ("group", "by") for pair in pairwise(words))
    return Statement(tuple(dict.fromkeys(tables)), is_grouped)


def tokens_of(sql: str) -> list[Token]:
    found: list[Token] = []
    for match in _TOKEN.finditer(sql):
        kind = str(match.lastgroup)
        if kind == "sign" and match[0] in "'\"`":
            raise SqlError(f"the quote {match[0]} is not closed", match.start())
        if kind != "space":
            found.append(Token(kind, match[0], match.start()))
    # One at the end is a habit and does no harm.
    if found and found[-1].text == ";":
        found.pop()
    return found


def _check_whole(tokens: list[Token]) -> None:
    if not tokens:
        raise SqlError("there is no SQL", 0)
    if tokens[0].word not in _BEGINNINGS:
        raise SqlError(f"a view is a query and begins with SELECT or WITH, not with {tokens[0].text}", tokens[0].offset)
    open_at: list[Token] = []
    for token in tokens:
        if token.text == "(":
            open_at.append(token)
        elif token.text == ")":
            if not open_at:
                raise SqlError("a ) too much", token.offset)
            open_at.pop()
        elif token.text == ";":
            raise SqlError("a view is one query; there is more after the ;", token.offset)
    if open_at:
        raise SqlError("a ( is not closed", open_at[-1].offset)
    check_operands(tokens)


def check_operands(tokens: list[Token]) -> None:
    """That something follows whatever needs it."""
    types = 0
    for at, token in enumerate(tokens):
        after = tokens[at + 1] if at + 1 < len(tokens) else None
        if token.text == "<" and at and tokens[at - 1].word in ("array", "map", "struct"):
            types += 1
        elif token.text == ">" and types:
            # The end of a type, such as ARRAY<STRING>.
            types -= 1
        elif after is None and (token.word in _WANTING or token.text in _SIGNS or token.text == ","):
            raise SqlError(f"the query ends with {token.text}", token.offset)
        elif after is not None and token.text in _SIGNS and (after.text in (")", ",") or after.word in _NEXT):
            raise SqlError(f"something is missing between {token.text} and {after.text}", token.offset)


def _common_tables(tokens: list[Token]) -> set[str]:
    """Names that the query itself gives, in WITH."""
    if not any(token.word == "with" for token in tokens):
        return set()
    found: set[str] = set()
    for name, after, opened in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if after.word == "as" and opened.text == "(" and name.kind in ("word", "quoted"):
            found.add(name.name.lower())
    return found


def _tables(tokens: list[Token]) -> list[Table]:
    found: list[Table] = []
    # For each open parenthesis whether a query is in it: EXTRACT(YEAR FROM x) holds none.
    in_query = [True]
    for at, token in enumerate(tokens):
        if token.text == "(":
            in_query.append(tokens[at + 1].word == "from" if at + 1 < len(tokens) else False)
        elif token.text == ")":
            in_query.pop()
        elif token.word in ("select", "with"):
            in_query[-1] = True
        elif token.word == "from" and in_query[-1]:
            if at and tokens[at - 1].word == "distinct" and at > 1 and tokens[at - 2].word in ("is", "not"):
                continue
            found += _listed(tokens, at + 1)
        elif token.word == "join":
            found += _listed(tokens, at + 1)[:1]
    return found


def _listed(tokens: list[Token], at: int) -> list[Table]:
    """The tables of `FROM a, b x, (SELECT ...) AS c`."""
    found: list[Table] = []
    while at < len(tokens):
        if tokens[at].word == "lateral":
            at += 1
            continue
        if tokens[at].text == "(":
            at = _after_parenthesis(tokens, at)
        elif tokens[at].kind in ("word", "quoted"):
            start = at
            at += 1
            while at + 1 < len(tokens) and tokens[at].text == ".":
                at += 2
            if at < len(tokens) and tokens[at].text == "(":
                at = _after_parenthesis(tokens, at)
            else:
                name = ".".join(token.name for token in tokens[start:at:2])
                found.append(Table(name, tokens[start].offset))
        else:
            return found
        at = _after_alias(tokens, at)
        if at >= len(tokens) or tokens[at].text != ",":
            return found
        at += 1
    return found


def _after_parenthesis(tokens: list[Token], at: int) -> int:
    depth = 0
    while at < len(tokens):
        depth += {"(": 1, ")": -1}.get(tokens[at].text, 0)
        at += 1
        if depth == 0:
            return at
    return at


def _after_alias(tokens: list[Token], at: int) -> int:
    if at < len(tokens) and tokens[at].word == "as":
        at += 1
    if at < len(tokens) and tokens[at].kind in ("word", "quoted") and tokens[at].word not in _AFTER_TABLE:
        at += 1
        if at < len(tokens) and tokens[at].text == "(":
            at = _after_parenthesis(tokens, at)
    return at
