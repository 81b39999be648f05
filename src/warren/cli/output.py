"""How commands show what they found: a table for people, JSON for scripts. Names and numbers are never cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

json_option = click.option("--json", "as_json", is_flag=True, help="For scripts.")


def show_rows(rows: Sequence[dict[str, Any]], columns: Sequence[str], as_json: bool) -> None:
    """The whole rows as JSON, or these columns of them as a table; one field to a line where a table has no room."""
    console = Console(soft_wrap=True)
    if as_json:
        console.print_json(data=list(rows))
        return
    table = Table()
    for column in columns:
        is_number = all(isinstance(row.get(column), int | float) for row in rows if row.get(column) is not None)
        table.add_column(column, justify="right" if is_number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell(row.get(column))) for column in columns))
    needed = Measurement.get(console, console.options.update(max_width=1 << 20), table).maximum
    if needed <= console.width or not console.is_terminal:
        Console(width=max(needed, 1)).print(table)
        return
    for row in rows:
        for column in columns:
            console.print(Text.assemble((f"{column}: ", "bold"), cell(row.get(column))))
        console.print()


def show_item(item: dict[str, Any], as_json: bool) -> None:
    console = Console(soft_wrap=True)
    if as_json:
        console.print_json(data=item)
        return
    width = max((len(name) for name in item), default=0)
    for name, value in item.items():
        console.print(Text.assemble((f"{name:{width}}  ", "bold"), cell(value)))


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
