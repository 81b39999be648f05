"""`warren redrive`: dead letters back to where they died."""

from __future__ import annotations

import click

from warren.cli.job_view import broker_option, json_option, master_option, run_job


@click.command()
@click.argument("queue")
@click.option("--where", default="", help="Only letters that meet this condition in SQL; the others stay.")
@click.option("--to", default="", help="Send them to this queue instead of the one that x-death names.")
@click.option("--limit", type=click.IntRange(1), help="At most so many.")
@click.option("--dry-run", is_flag=True, help="Only say what would go where. The letters are marked as redelivered.")
@broker_option
@master_option
@json_option
def redrive(
    queue: str, where: str, to: str, limit: int | None, dry_run: bool, broker: str, master: str | None, as_json: bool
) -> None:
    """Send the dead letters in QUEUE back to the queues that they died in.

    A letter leaves QUEUE only after its queue has confirmed it. It carries x-redrive (when and from where) and
    x-redrive-count. SQL sees the columns body, exchange, routing_key, properties, headers: for example
    --where "headers['x-first-death-reason'] = 'rejected' AND CAST(body AS STRING) LIKE '%timeout%'".
    """
    from warren.spark.jobs.redrive import Redrive

    job = Redrive(queue, broker, where, to, limit or 0, dry_run)
    run_job("redrive", job, master, as_json)
