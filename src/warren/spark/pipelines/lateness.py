"""Which rows come too late for their window: Spark leaves those out, and they are to be found among the dead letters.

A row is too late when the watermark of the batch before has closed every window that it belongs to. That is Spark's own
rule, and where the watermark was stands in the note that Spark makes of each batch before it runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from warren.spark.folders import arrow_place
from warren.spark.pipelines.graph import views_of
from warren.spark.pipelines.model import Definition, Sink, Source
from warren.spark.pipelines.sql_text import Token, tokens_of
from warren.spark.places import BY_ARROW, is_local, scheme_of

_WINDOWS: Final = ("window", "session_window")


@dataclass(frozen=True)
class Lateness:
    """Travels to the executors."""

    query: str
    # SQL over the source's columns: the microsecond at which the last window of a row closes.
    until: str
    checkpoint: str

    def watermark(self, batch: int) -> int:
        """In microseconds: what is not later than this was late already when the batch began."""
        if not batch:
            return 0
        system, folder = arrow_place(self.checkpoint)
        with system.open_input_stream(f"{folder}/offsets/{batch - 1}") as file:
            # A version, what Spark knows of the batch, and the offsets of each source.
            _, note, *_ = file.read().decode().splitlines()
        return int(json.loads(note)["batchWatermarkMs"]) * 1000


def lateness_of(definition: Definition, sink: Sink, source: Source) -> Lateness | None:
    """None where no window is laid over the column that has the watermark, or only Spark can tell or reach."""
    if source.watermark is None:
        return None
    column = source.watermark.column
    views = (definition.views[name] for name in views_of(definition, [sink.origin]))
    ends = dict.fromkeys(end for view in views if view.function is None for end in _ends(view.sql, column))
    if not ends:
        return None
    checkpoint = definition.checkpoint_of(sink)
    if not is_local(checkpoint) and scheme_of(checkpoint) not in BY_ARROW:
        return None
    until = f"greatest({', '.join(ends)})" if len(ends) > 1 else next(iter(ends))
    return Lateness(sink.name, until, checkpoint)


def _ends(sql: str, column: str) -> Iterator[str]:
    tokens = tokens_of(sql)
    for at, token in enumerate(tokens[:-1]):
        if token.word not in _WINDOWS or tokens[at + 1].text != "(":
            continue
        over, *given = _arguments(tokens[at + 2 :])
        # Others than texts are for Spark to understand.
        spans = [_micros(each[0].text) for each in given if len(each) == 1 and each[0].kind == "text"]
        if over and over[-1].name.lower() == column.lower() and spans and len(spans) == len(given):
            yield _end(token.word, f"unix_micros(CAST(`{column}` AS TIMESTAMP))", *spans)


def _end(kind: str, moment: str, length: str, slide: str = "", start: str = "0") -> str:
    if kind == "session_window":
        return f"({moment} + {length})"
    return f"({moment} - pmod({moment} - {start}, {slide or length}) + {length})"


def _micros(span: str) -> str:
    return f"unix_micros(timestamp_micros(0) + INTERVAL {span})"


def _arguments(tokens: list[Token]) -> list[list[Token]]:
    """Behind the parenthesis that opens a call."""
    found: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth < 0:
            break
        if token.text == "," and not depth:
            found.append([])
        else:
            found[-1].append(token)
    return found
