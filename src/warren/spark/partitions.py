"""Cuts what a batch reads into partitions. The same range is cut the same way whenever it is read again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from warren.spark.consume import Range


class RangePartition(InputPartition):
    def __init__(self, span: Range, port: str = "") -> None:
        super().__init__(span)
        self.span = span
        # Of the follower that it is read from, HOST:PORT; empty: from the broker itself.
        self.port = port


def shared_out(spans: Sequence[Range], ports: Sequence[str]) -> list[RangePartition]:
    """Among the followers that serve at these ports, if there are any."""
    return [RangePartition(span, ports[at % len(ports)] if ports else "") for at, span in enumerate(spans)]


def split(ranges: Sequence[Range], least: int) -> list[Range]:
    """So many, or as many as there are ranges, or messages: the longer a range the more pieces it is cut into."""
    ranges = [span for span in ranges if span.end > span.start]
    counts = [1] * len(ranges)
    for _ in range(min(least, sum(span.end - span.start for span in ranges)) - len(ranges)):
        # The range with the largest pieces.
        chosen = max(range(len(ranges)), key=lambda at: (ranges[at].end - ranges[at].start) / counts[at])
        counts[chosen] += 1
    pieces: list[Range] = []
    for span, count in zip(ranges, counts, strict=True):
        size = span.end - span.start
        edges = [span.start + size * number // count for number in range(count + 1)]
        pieces += [Range(span.name, *edge, span.place_header, archive=span.archive) for edge in pairwise(edges)]
    return pieces


def limit_rows(start: Mapping[str, int], end: Mapping[str, int], most: int) -> dict[str, int]:
    """How far to go from `start` towards `end` with no more than `most` messages, shared out by what is waiting."""
    waiting = {name: max(0, end[name] - start[name]) for name in end}
    total = sum(waiting.values())
    if total <= most:
        return dict(end)
    shares = {name: count * most // total for name, count in waiting.items()}
    # Rounding down must not let a stream with little waiting starve for ever.
    left = most - sum(shares.values())
    for name, count in sorted(waiting.items(), key=lambda item: (shares[item[0]], item[0])):
        if left and shares[name] < count:
            shares[name] += 1
            left -= 1
    return {name: start[name] + share if waiting[name] else end[name] for name, share in shares.items()}
