"""`warren archive`: a queue or stream into Parquet or Delta."""

from __future__ import annotations

import click

from warren.cli.job_view import broker_option, json_option, master_option, run_job
from warren.errors import WarrenError
from warren.spark.pipelines.model import SinkKind, SourceKind


@click.command()
@click.option("--queue", help="Archive this queue; its messages are settled once they are in the table.")
@click.option("--stream", help="Archive this stream; it keeps its messages.")
@click.option("--super-stream", help="Archive all partitions of this super stream.")
@click.option("--to", "table", required=True, help="Folder of the table, or an address such as s3a://.")
@click.option("--format", "kind", type=click.Choice(["parquet", "delta"]), default="parquet", show_default=True)
@click.option(
    "--partition-by",
    multiple=True,
    default=("day",),
    show_default=True,
    help="day or hour of the message's timestamp, queue, exchange or routing_key; none for no partitions.",
)
@click.option("--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@broker_option
@master_option
@json_option
def archive(
    queue: str | None,
    stream: str | None,
    super_stream: str | None,
    table: str,
    kind: str,
    partition_by: tuple[str, ...],
    follow: bool,
    broker: str,
    master: str | None,
    as_json: bool,
) -> None:
    """Copy a queue or stream into a table, with all properties, headers and offsets.

    Each message is there once, however often the job was interrupted: the table holds its own checkpoint, and the
    same command goes on where the last one ended. Small files are put together.
    """
    from warren.spark.jobs.archive import Archive

    given = [
        (source, name)
        for source, name in (
            (SourceKind.QUEUE, queue),
            (SourceKind.STREAM, stream),
            (SourceKind.SUPER_STREAM, super_stream),
        )
        if name
    ]
    if len(given) != 1:
        raise WarrenError("name what to archive with one of --queue, --stream and --super-stream")
    partitions = () if partition_by == ("none",) else partition_by
    job = Archive(given[0][0], given[0][1], table, broker, SinkKind(kind), partitions, follow)
    run_job("archive", job, master, as_json)
