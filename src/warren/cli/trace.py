"""`warren trace`: the journey of a message as a tree, of one that is published or of one that might be."""

from __future__ import annotations

import time
from typing import Any, Final

import click
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from warren.cli.options import EXCHANGE, header_option, key_option, pairs, url_option, vhost_option
from warren.cli.output import json_option
from warren.client.api import Api
from warren.errors import WarrenError

POLL_SECONDS: Final = 0.1


@click.command()
@click.option("--next", "count", type=click.IntRange(1, 500), default=1, show_default=True, help="Wait for so many.")
@click.option("--exchange", type=EXCHANGE, help="Only publishes to this exchange ('' is the default one).")
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Wait no longer than these seconds.")
@click.option("--list", "is_list", is_flag=True, help="Show the latest that were traced, and wait for none.")
@click.option("--sample-every", type=click.IntRange(0), help="From now on, trace one publish in so many; 0 is none.")
@click.option("--dry-run", is_flag=True, help="Where would a message go? Nothing is published.")
@key_option("With --dry-run.", default="")
@header_option
@json_option
@vhost_option
@url_option
def trace(
    count: int,
    exchange: str | None,
    timeout: float,
    is_list: bool,
    sample_every: int | None,
    dry_run: bool,
    key: str,
    headers: tuple[str, ...],
    as_json: bool,
    vhost: str,
    url: str,
) -> None:
    """Show which stages a message crosses: checks, bindings that match and why, queues, the disk, the confirm.

    Without options it waits for the next publish. A message with the header x-warren-trace is traced in any case.
    """
    api = Api(url)
    if sample_every is not None:
        api.put("traces", "settings", body={"sample_every": sample_every})
        return
    if dry_run:
        body = {"vhost": vhost, "exchange": exchange or "", "routing_key": key, "headers": pairs(headers)}
        show([api.post("traces", "dry-run", body=body)], as_json)
    elif is_list:
        show(list(reversed(api.get("traces"))), as_json)
    else:
        show(wait(api, count, exchange, timeout), as_json)


def wait(api: Api, count: int, exchange: str | None, timeout: float) -> list[dict[str, Any]]:
    known = max((each["id"] for each in api.get("traces")), default=0)
    wanted: dict[str, Any] = {"next": count}
    if exchange is not None:
        wanted["exchange"] = exchange
    api.put("traces", "settings", body=wanted)
    deadline = time.monotonic() + timeout
    while True:
        found = [each for each in reversed(api.get("traces")) if each["id"] > known and is_over(each)]
        if exchange is not None:
            found = [each for each in found if each["exchange"] == exchange]
        if len(found) >= count:
            return found[:count]
        if time.monotonic() > deadline:
            api.put("traces", "settings", body={"next": 0})
            raise WarrenError(f"{len(found)} of {count} publishes came within {timeout:g} s")
        time.sleep(POLL_SECONDS)


def is_over(journey: dict[str, Any]) -> bool:
    return bool(journey["outcome"]) and journey["outcome"] != "waits for the disk"


def show(journeys: list[dict[str, Any]], as_json: bool) -> None:
    console = Console()
    if as_json:
        console.print_json(data=journeys)
        return
    for journey in journeys:
        console.print(tree_of(journey))


def tree_of(journey: dict[str, Any]) -> Tree:
    """Names come from clients: they are text, never markup."""
    where = journey["exchange"] or "the default exchange"
    tree = Tree(Text.assemble((f"{where} ", "bold"), f"key '{journey['routing_key']}' ", (journey["outcome"], "bold")))
    for stage in journey["stages"]:
        took = f"  {stage['microseconds']:.0f} us"
        line = Text.assemble((f"{stage['stage']:<17}", "cyan"), stage["text"], (took, "dim"))
        branch = tree.add(line)
        for step in stage.get("steps", []):
            add_step(branch, step)
    return tree


def add_step(branch: Tree, step: dict[str, Any]) -> None:
    name = step["exchange"] or "the default exchange"
    inner = branch.add(Text.assemble((name, "bold"), f" ({step['type']})"))
    for sign, style, found in (("+ ", "green", step["matched"]), ("- ", "red", step["missed"])):
        for match in found:
            where = f"{match['destination_type']} '{match['destination']}'"
            inner.add(Text.assemble((sign, style), f"{where}: {match['why']}"))
    for note in step["notes"]:
        inner.add(Text(note))
