"""Which columns an expression or a query names, as far as that is certain without Spark.

Not a parser, and cautious: of a query with parts that it does not know (a query within a query, a function with a
lambda, PIVOT and the like) it says nothing, and leaves that to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from warren.spark.pipelines.sql_text import Token, tokens_of

Columns = frozenset[str]
# Names of a table or alias, and what it holds.
Scope = Mapping[str, Columns]

_UNSURE: Final = {
    "with", "union", "intersect", "except", "minus", "lateral", "pivot", "unpivot", "tablesample", "values",
    "match_recognize",
}  # fmt: skip
# Words of queries and expressions behind which something else begins.
_JOINT_WORDS: Final = """
    select distinct all from where group by having order sort cluster distribute limit offset qualify over partition
    join inner left right full outer cross semi anti natural on using as asc desc nulls and or not in is like ilike
    rlike regexp any some exists between case when then else cast try_cast interval for escape div both leading trailing
    placing rows range groups collate ignore respect
"""
_JOINTS: Final = frozenset(_JOINT_WORDS.split())
# Other words that name no column, or not for certain: types, units of time, and what has a meaning in some places only.
_OTHER_WORDS: Final = """
    unbounded preceding following current row exclude no others ties filter within grouping sets cube rollup first last
    null true false end to at time zone local unknown default nan infinity inf user
    current_date current_timestamp current_time current_user session_user localtimestamp localtime current_catalog
    current_schema current_database boolean tinyint byte smallint short int integer bigint long float real double
    decimal dec numeric string char character varchar binary date timestamp timestamp_ntz timestamp_ltz void variant
    array struct map geometry geography year years yearofweek quarter quarters month months week weeks day days
    dayofyear dayofweek dayofweek_iso dow doy isodow hour hours minute minutes second seconds millisecond milliseconds
    microsecond microseconds nanosecond nanoseconds
"""
_WORDS: Final = _JOINTS | frozenset(_OTHER_WORDS.split())
# Columns that Spark makes itself.
_MADE: Final = frozenset(("window", "session_window", "_metadata"))


@dataclass(frozen=True)
class Missing:
    name: str
    offset: int
    # What could have been meant.
    known: tuple[str, ...]


def missing_in_expression(text: str, columns: Columns) -> list[Missing]:
    tokens = tokens_of(text)
    return [] if _is_unsure(tokens) else _missing(tokens, {"": columns}, frozenset())


def missing_in_query(sql: str, columns_of: Callable[[str], Columns | None]) -> list[Missing]:
    tokens = tokens_of(sql)
    scope = _scope(tokens, columns_of)
    return [] if scope is None else _missing(tokens, scope, _aliases(tokens))


def columns_of_query(sql: str, columns_of: Callable[[str], Columns | None]) -> Columns | None:
    """What comes out; None when that is not certain."""
    tokens = tokens_of(sql)
    scope = _scope(tokens, columns_of)
    if scope is None:
        return None
    found: set[str] = set()
    for item in _items(tokens):
        names = _names_of(item, scope)
        if names is None:
            return None
        found |= names
    return frozenset(found)


def _is_unsure(tokens: list[Token]) -> bool:
    words = [token.word for token in tokens]
    pairs = list(pairwise(words))
    has_named_window = any(first == "over" and second != "(" for first, second in pairs)
    return has_named_window or ("-", ">") in pairs or ("|", ">") in pairs or not _UNSURE.isdisjoint(words)


def _scope(tokens: list[Token], columns_of: Callable[[str], Columns | None]) -> Scope | None:
    """The tables of a plain query by the names they have in it; None when there may be others."""
    words = [token.word for token in tokens]
    if not words or words[0] != "select" or words.count("select") != 1 or _is_unsure(tokens):
        return None
    depth = 0
    scope: dict[str, Columns] = {}
    for at, token in enumerate(tokens):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth or token.word not in ("from", "join"):
            continue
        for name, alias in _tables_at(tokens, at + 1, token.word == "from"):
            columns = columns_of(name)
            if columns is None:
                return None
            scope[alias.lower()] = scope[name.lower()] = columns
    return scope or None


def _tables_at(tokens: list[Token], at: int, is_list: bool) -> list[tuple[str, str]]:
    """Names and aliases. An odd name is one that nobody knows, which ends the matter."""
    found: list[tuple[str, str]] = []
    while at < len(tokens) and tokens[at].kind in ("word", "quoted"):
        name = alias = tokens[at].name
        at += 1
        if at < len(tokens) and tokens[at].text in ("(", "."):
            return [("", "")]
        if at < len(tokens) and tokens[at].word == "as":
            at += 1
        if at < len(tokens) and tokens[at].kind in ("word", "quoted") and tokens[at].word not in _WORDS:
            alias = tokens[at].name
            at += 1
        found.append((name, alias))
        if not is_list or at >= len(tokens) or tokens[at].text != ",":
            return found
        at += 1
    return [*found, ("", "")]


def _aliases(tokens: list[Token]) -> frozenset[str]:
    """Names that the query gives: by AS, or by standing behind something."""
    found: set[str] = set()
    for at, token in enumerate(tokens):
        if at and _is_name(token) and (tokens[at - 1].word == "as" or _ends_operand(tokens[at - 1])):
            found.add(token.name.lower())
        if at and token.text == "(" and tokens[at - 1].word == "as":
            found |= {each.name.lower() for each in tokens[at + 1 : at + 20] if _is_name(each)}
    return frozenset(found)


def _missing(tokens: list[Token], scope: Scope, aliases: Columns) -> list[Missing]:
    columns = {name for each in scope.values() for name in each}
    known = columns | set(aliases) | set(scope) | _MADE
    found: list[Missing] = []
    for at, token in enumerate(tokens):
        before = tokens[at - 1] if at else None
        after = tokens[at + 1] if at + 1 < len(tokens) else None
        if not _is_name(token) or (after is not None and _is_no_column_before(after, tokens, at)):
            continue
        name = token.name.lower()
        if before is not None and before.text == ".":
            table = tokens[at - 2].name.lower() if at > 1 else ""
            is_first = at < 3 or tokens[at - 3].text != "."
            if is_first and table in scope and table not in columns and name not in scope[table]:
                found.append(Missing(token.name, token.offset, tuple(sorted(scope[table]))))
        elif before is not None and (before.text == ":" or before.word in ("as", "collate") or _ends_operand(before)):
            continue
        elif name not in known:
            found.append(Missing(token.name, token.offset, tuple(sorted(columns))))
    return found


def _is_name(token: Token) -> bool:
    if token.kind == "quoted":
        return True
    return token.kind == "word" and not token.text[0].isdigit() and token.word not in _WORDS


def _is_no_column_before(after: Token, tokens: list[Token], at: int) -> bool:
    """A function, a literal with its type, a field of a type, or an argument with its name."""
    is_argument = after.text == "=" and at + 2 < len(tokens) and tokens[at + 2].text == ">"
    return after.text in ("(", ":") or after.kind == "text" or is_argument


def _ends_operand(token: Token) -> bool:
    """Whether what follows it without a sign between them can only be another name for it."""
    if token.kind in ("text", "quoted") or token.text in (")", "]"):
        return True
    return token.kind == "word" and token.word not in _JOINTS


def _items(tokens: list[Token]) -> list[list[Token]]:
    start = 2 if len(tokens) > 1 and tokens[1].word in ("distinct", "all") else 1
    items: list[list[Token]] = [[]]
    depth = 0
    for token in tokens[start:]:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0 and token.word == "from":
            break
        if depth == 0 and token.text == ",":
            items.append([])
        else:
            items[-1].append(token)
    return items


def _names_of(item: list[Token], scope: Scope) -> Columns | None:
    """The columns that an item of the SELECT list makes."""
    texts = [token.text for token in item]
    columns = frozenset(name for each in scope.values() for name in each)
    if texts == ["*"]:
        return columns
    if len(item) == 3 and texts[1:] == [".", "*"]:
        return scope.get(item[0].name.lower())
    if len(item) > 1 and item[-1].kind != "sign" and (item[-2].word == "as" or _is_alias(item)):
        return frozenset((item[-1].name.lower(),))
    is_path = all(
        _is_name(token) or token.word in columns if at % 2 == 0 else token.text == "." for at, token in enumerate(item)
    )
    return frozenset((item[-1].name.lower(),)) if is_path and len(item) % 2 else None


def _is_alias(item: list[Token]) -> bool:
    return _is_name(item[-1]) and _ends_operand(item[-2])
