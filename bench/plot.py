"""The picture of a benchmark: rate and CPU time for each message, broker beside broker."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import matplotlib

from bench.brokers import Contender
from bench.rows import FEATURES, ROWS, Row
from warren.perf.measure import Figures

COLORS: Final = ("#c2410c", "#64748b", "#0f766e")


def plot(path: Path, contenders: list[Contender], medians: dict[str, dict[str, Figures]]) -> None:
    # Without a screen.
    matplotlib.use("agg")
    from matplotlib import pyplot

    rows = [row for row in (*ROWS, *FEATURES) if row.name in medians and row.is_more_better]
    if not rows:
        return
    figure, axes = pyplot.subplots(1, 2, figsize=(12, 1.5 + 0.55 * len(rows)), sharey=True, layout="constrained")
    for axis, title, names in (
        (axes[0], "a second (more is better)", [row.figure for row in rows]),
        (axes[1], "broker CPU each, us (less is better)", [row.cpu_figure for row in rows]),
    ):
        _draw(axis, rows, names, contenders, medians)
        axis.set_title(title)
    axes[0].set_yticks(range(len(rows)), [row.name for row in rows])
    axes[0].invert_yaxis()
    # Outside: wherever it lay inside, some row would reach it.
    figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=len(contenders))
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def _draw(
    axis: matplotlib.axes.Axes,
    rows: list[Row],
    names: list[str],
    contenders: list[Contender],
    medians: dict[str, dict[str, Figures]],
) -> None:
    height = 0.8 / len(contenders)
    for place, contender in enumerate(contenders):
        values = [
            medians[row.name].get(contender.name, {}).get(name, 0.0) for row, name in zip(rows, names, strict=True)
        ]
        offsets = [number - 0.4 + height * (place + 0.5) for number in range(len(rows))]
        label = f"{contender.name} {contender.version}".strip()
        bars = axis.barh(offsets, values, height, label=label, color=COLORS[place % len(COLORS)])
        axis.bar_label(
            bars, [f"{value:,.0f}" if value >= 100 else f"{value:.2g}" for value in values], padding=3, size=8
        )
    # Brokers differ by orders of magnitude; on a plain scale the slower one would be a line at the edge.
    axis.set_xscale("log")
    axis.margins(x=0.15)
    axis.spines[["top", "right"]].set_visible(False)
