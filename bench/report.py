"""The table of a benchmark: what each broker reached, how that compares, and what it cost in CPU time."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from bench.brokers import Contender
from bench.rows import FEATURES, ROWS, SCALING, START_ROW, Row
from warren.perf.measure import Figures

START: Row = Row(START_ROW, (), figure="start_ms", unit=" ms", is_more_better=False)


def print_table(console: Console, contenders: list[Contender], medians: dict[str, dict[str, Figures]]) -> None:
    table = Table()
    table.add_column("workload", no_wrap=True)
    for contender in contenders:
        table.add_column(f"{contender.name}\n{contender.version}".strip(), justify="right")
    table.add_column("ratio", justify="right")
    for contender in contenders:
        table.add_column(f"CPU us\n{contender.name}", justify="right")
    for row in (*ROWS, *FEATURES, START, *SCALING):
        if row.name in medians:
            _add_row(table, row, contenders, medians[row.name])
    console.print(table)


def _add_row(table: Table, row: Row, contenders: list[Contender], found: dict[str, Figures]) -> None:
    figures = [found.get(contender.name, {}) for contender in contenders]
    rates = [_number(each.get(row.figure), row.unit) for each in figures]
    table.add_row(row.name, *rates, _ratio(row, figures), *[_number(each.get(row.cpu_figure)) for each in figures])
    for name, unit in row.also:
        table.add_row(f"  {unit}", *[_number(each.get(name)) for each in figures], style="dim")


def _ratio(row: Row, figures: list[Figures]) -> str:
    """How many times better than the second the first is, whichever way is better."""
    if len(figures) < 2 or not figures[0].get(row.figure) or not figures[1].get(row.figure):
        return ""
    ours, theirs = figures[0][row.figure], figures[1][row.figure]
    return f"{ours / theirs if row.is_more_better else theirs / ours:.1f}x"


def _number(value: float | None, unit: str = "") -> str:
    if value is None:
        return ""
    return (f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}") + unit
