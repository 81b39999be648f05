"""How commands show what they found: a table for people, JSON for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

json_option = click.option("--json", "as_json", is_flag=True, help="For scripts.")


def show_rows(rows: Sequence[dict[str, Any]], columns: Sequence[str], as_json: bool) -> None:
    """The whole rows as JSON, or these columns of them as a table."""
    console = Console()
    if as_json:
        console.print_json(data=list(rows))
        return
    table = Table(*columns)
    for row in rows:
        table.add_row(*(Text(cell(row.get(column))) for column in columns))
    console.print(table)


def show_item(item: dict[str, Any], as_json: bool) -> None:
    console = Console()
    if as_json:
        console.print_json(data=item)
        return
    table = Table("", "", show_header=False)
    for name, value in item.items():
        table.add_row(name, Text(cell(value)))
    console.print(table)


def cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(cell(each) for each in value)
    if isinstance(value, dict):
        return ", ".join(f"{name}={cell(each)}" for name, each in value.items())
    return str(value)
