"""`warren replay`: a table or stream, published again."""

from __future__ import annotations

import hashlib
from pathlib import Path

import click

from warren.cli.job_view import broker_option, json_option, master_option, run_job
from warren.errors import WarrenError
from warren.spark.places import absolute


@click.command()
@click.option("--from", "table", help="Folder or address of a Parquet or Delta table.")
@click.option("--stream", help="Replay this stream instead of a table.")
@click.option("--exchange", help="Publish here ('' is the default exchange); else to each message's own exchange.")
@click.option("--routing-key", help="Publish with this key; else with each message's own.")
@click.option("--where", default="", help="Only rows that meet this condition in SQL.")
@click.option("--rate", type=click.IntRange(1), help="Messages a second; as fast as possible by default.")
@click.option("--key", default="routing_key", show_default=True, help="Rows that are equal here keep their order.")
@click.option("--order-by", default="offset", show_default=True, help="The column, a number or a time, that orders.")
@click.option("--plain", is_flag=True, help="Add no header with an id: repeated messages cannot be told then.")
@click.option("--state", type=click.Path(path_type=Path), help="Where to note how far it is; made from the options.")
@broker_option
@master_option
@json_option
def replay(
    table: str | None,
    stream: str | None,
    exchange: str | None,
    routing_key: str | None,
    where: str,
    rate: int | None,
    key: str,
    order_by: str,
    plain: bool,
    state: Path | None,
    broker: str,
    master: str | None,
    as_json: bool,
) -> None:
    """Publish what was archived, or what a stream holds, with its properties and in its order.

    The same command goes on where a killed one was. Messages carry an id (x-deduplication-header) that is the same in
    every attempt, so a queue that deduplicates gets each one once.
    """
    from warren.spark.jobs.replay import Replay

    if (table is None) == (not stream):
        raise WarrenError("name what to replay with one of --from and --stream")
    if state is None:
        place = table and absolute(table, Path.cwd())
        options = f"{place}|{stream}|{exchange}|{routing_key}|{where}|{key}|{order_by}|{broker}"
        state = Path(".warren", f"replay-{hashlib.sha256(options.encode()).hexdigest()[:12]}")
    job = Replay(
        state, table, stream or "", broker, exchange, routing_key, where, key, order_by, rate or 0, adds_id=not plain
    )
    run_job("replay", job, master, as_json)
