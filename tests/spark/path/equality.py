"""The live broker and the path, side by side, over traffic made at random.

    python -m tests.spark.path.equality --publishes 100000

prints a JSON line; exit code 1 at the first difference, with the seed that shows it.
"""

from __future__ import annotations

import json
import random
import sys
import time
from dataclasses import fields
from typing import Any

import click

from tests.spark.path.live import LiveBroker
from tests.spark.path.outcome import Outcome
from tests.spark.path.traffic import MAX_MESSAGE_SIZE, START, Sent, make_crew, make_definitions, make_publishes
from tests.spark.path.without_spark import Run
from warren.spark.path.consumers import Crew


def live_outcome(
    definitions: dict[str, Any],
    publishes: list[Sent],
    until: int,
    crew: Crew | None = None,
    **extensions: Any,
) -> Outcome:
    live = LiveBroker(definitions, MAX_MESSAGE_SIZE, START, crew, **extensions)
    for sent in publishes:
        live.publish(sent)
    return live.finish(until)


def path_outcome(
    definitions: dict[str, Any], publishes: list[Sent], until: int, crew: Crew | None = None, **options: Any
) -> Outcome:
    run = Run(definitions, MAX_MESSAGE_SIZE, START, crew, **options)
    run.batch(publishes, until)
    return run.finish()


def streamed_outcome(
    definitions: dict[str, Any], publishes: list[Sent], until: int, sizes: list[int], **extensions: Any
) -> Outcome:
    """In batches of these sizes, the rest in a last one; between two nothing is left but the state."""
    run = Run(definitions, MAX_MESSAGE_SIZE, START, **extensions)
    for size in sizes:
        part, publishes = publishes[:size], publishes[size:]
        if part:
            run.batch(part, part[-1].at, keeps_state=True)
    run.batch(publishes, until, keeps_state=True)
    return run.finish()


def difference(one: Outcome, other: Outcome) -> str:
    """The first thing in which they differ; empty when there is none."""
    for each in fields(Outcome):
        here, there = getattr(one, each.name), getattr(other, each.name)
        if here == there:
            continue
        if isinstance(here, list):
            return f"{each.name}: {here} / {there}"
        for key in sorted({*here, *there}, key=str):
            if here.get(key) != there.get(key):
                return f"{each.name} of {key}: {here.get(key)} / {there.get(key)}"
    return ""


def compare(draw: random.Random, count: int) -> str:
    """One set of definitions, in one go and in batches."""
    definitions = make_definitions(draw)
    publishes = make_publishes(draw, count)
    until = publishes[-1].at + draw.choice([0, 10, 1000])
    crew = make_crew(draw, definitions)
    live = live_outcome(definitions, publishes, until, crew)
    partitions, in_memory = draw.randint(1, 5), draw.choice([0, 200_000])
    whole = path_outcome(definitions, publishes, until, crew, partitions=partitions, in_memory=in_memory)
    found = difference(live, whole)
    if found or crew is not None:
        return found and f"live / path: {found}"
    sizes = [draw.randint(1, count) for _ in range(draw.randint(1, 3))]
    found = difference(live, streamed_outcome(definitions, publishes, until, sizes))
    return found and f"live / batches of {sizes}: {found}"


@click.command()
@click.option("--publishes", default=100_000, show_default=True, help="How many in all.")
@click.option("--each", default=200, show_default=True, help="How many for one set of definitions.")
@click.option("--seed", default=0, show_default=True, help="The first; one more for each set.")
def main(publishes: int, each: int, seed: int) -> None:
    began = time.monotonic()
    done = 0
    while done < publishes:
        found = compare(random.Random(seed), each)
        if found:
            click.echo(json.dumps({"seed": seed, "publishes": done, "difference": found}))
            sys.exit(1)
        done += each
        seed += 1
    seconds = round(time.monotonic() - began, 1)
    click.echo(json.dumps({"publishes": done, "definitions": done // each, "differences": 0, "seconds": seconds}))


if __name__ == "__main__":
    main()
