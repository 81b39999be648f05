"""`warren doctor`: whether the data pipeline will run on this machine."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import click
from rich.console import Console
from rich.text import Text

from warren.cli.options import uri_option
from warren.spark.doctor import Finding, examine


@click.command()
@uri_option("Look at this broker too, as in amqp://localhost.", default="")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def doctor(broker: str, as_json: bool) -> None:
    """Say what the data pipeline on Spark finds here and what is missing. Starts Spark once, which takes some seconds.

    Exits 1 when something is missing that it cannot do without.
    """
    findings = examine(broker)
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            Console(soft_wrap=True, highlight=False).print(_line(finding))
    if any(finding.is_needed and not finding.is_found for finding in findings):
        sys.exit(1)


def _line(finding: Finding) -> Text:
    mark, colour = ("ok", "green") if finding.is_found else ("no", "red" if finding.is_needed else "yellow")
    return Text.assemble((f"{mark:3}", colour), f"{finding.name:8}", finding.text)
