"""`warren doctor`: whether the data pipeline will run on this machine, or whether a configuration is weak."""

from __future__ import annotations

import json
import os
import sys

import click
from rich.console import Console
from rich.text import Text

from warren.cli.options import uri_option
from warren.config_loading import load
from warren.server.weaknesses import weaknesses
from warren.spark.doctor import Finding, examine


@click.command()
@uri_option("Look at this broker too, as in amqp://localhost.", default="")
@click.option("--security", is_flag=True, help="Name weak settings of the broker instead; does not start Spark.")
@click.option("--config", metavar="FILE", envvar="WARREN_CONFIG", help="The configuration that --security reads.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def doctor(broker: str, security: bool, config: str | None, as_json: bool) -> None:
    """Say what the data pipeline on Spark finds here and what is missing. Starts Spark once, which takes some seconds.

    With --security it reads what `warren serve` would, and names what an attacker would like about it.

    Exits 1 when something is missing that it cannot do without, or weak.
    """
    findings = _weak(config) if security else examine(broker)
    if as_json:
        click.echo(json.dumps([finding._asdict() for finding in findings], indent=2))
    else:
        for finding in findings:
            Console(soft_wrap=True, highlight=False).print(_line(finding))
    if any(finding.is_needed and not finding.is_found for finding in findings):
        sys.exit(1)


def _weak(config: str | None) -> list[Finding]:
    found = [Finding(name, False, text) for name, text in weaknesses(load(config, os.environ))]
    return found or [Finding("security", True, "no weak setting")]


def _line(finding: Finding) -> Text:
    mark, colour = ("ok", "green") if finding.is_found else ("no", "red" if finding.is_needed else "yellow")
    return Text.assemble((f"{mark:3}", colour), f"{finding.name:8} ", finding.text)
