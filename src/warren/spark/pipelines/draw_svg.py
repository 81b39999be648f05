"""The graph of a pipeline as SVG: sources on the left, sinks on the right, every arrow from left to right."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Final

from warren.spark.pipelines.describe import describe_dead_letters, describe_sink, describe_source
from warren.spark.pipelines.graph import declared_name, inputs_of, views_of
from warren.spark.pipelines.model import Definition

WIDTH: Final = 220
HEIGHT: Final = 56
GAP_X: Final = 70
GAP_Y: Final = 22
MARGIN: Final = 20
_TEXT_MAX: Final = 32
_COLOURS: Final = {"source": "#dbeafe", "view": "#f1f5f9", "sink": "#dcfce7", "dead": "#fee2e2"}
_STYLE: Final = (
    "text{font:13px system-ui,sans-serif;fill:#0f172a}.what{font-size:11px;fill:#475569}"
    "rect{stroke:#94a3b8}path{fill:none;stroke:#64748b;stroke-width:1.5}"
)
_TIP: Final = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0L8 4L0 8z" style="fill:#64748b;stroke:none"/></marker></defs>'
)


@dataclass(frozen=True)
class Box:
    name: str
    what: str
    kind: str
    column: int
    row: int

    @property
    def left(self) -> int:
        return MARGIN + self.column * (WIDTH + GAP_X)

    @property
    def top(self) -> int:
        return MARGIN + self.row * (HEIGHT + GAP_Y)


def draw_svg(definition: Definition) -> str:
    boxes = _place(definition)
    width = max(box.left for box in boxes.values()) + WIDTH + MARGIN
    height = max(box.top for box in boxes.values()) + HEIGHT + MARGIN
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>',
        f"<title>{escape(definition.name)}</title><style>{_STYLE}</style>{_TIP}",
        *(_arrow(boxes[start], boxes[end]) for start, end in edges(definition)),
        *(_draw(box) for box in boxes.values()),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def edges(definition: Definition) -> list[tuple[str, str]]:
    """Keys are `source:orders`, `view:valid`, `sink:totals`: a sink may have the name of a view."""
    found = [
        (_key(definition, start), f"view:{view}") for view in definition.views for start in inputs_of(definition, view)
    ]
    found += [
        (_key(definition, declared_name(definition, sink.origin)), f"sink:{sink.name}")
        for sink in definition.sinks.values()
    ]
    return found


def _key(definition: Definition, name: str) -> str:
    return f"source:{name}" if name in definition.sources else f"view:{name}"


def _place(definition: Definition) -> dict[str, Box]:
    columns = _columns(definition)
    last = max(columns.values(), default=0) + 1
    boxes: dict[str, Box] = {}
    used: dict[int, int] = {}

    def put(key: str, name: str, what: str, kind: str, column: int) -> None:
        row = used.get(column, 0)
        used[column] = row + 1
        boxes[key] = Box(name, what, kind, column, row)

    for source in definition.sources.values():
        put(f"source:{source.name}", source.name, describe_source(source), "source", 0)
    for view in views_of(definition, definition.views):
        what = "function" if definition.views[view].function is not None else "SQL"
        put(f"view:{view}", view, what, "view", columns[view])
    for sink in definition.sinks.values():
        put(f"sink:{sink.name}", sink.name, describe_sink(sink), "sink", last)
    if definition.dead_letters is not None:
        put("dead", "dead letters", describe_dead_letters(definition), "dead", last)
    return boxes


def _columns(definition: Definition) -> dict[str, int]:
    columns = dict.fromkeys(definition.sources, 0)
    for view in views_of(definition, definition.views):
        columns[view] = 1 + max((columns[each] for each in inputs_of(definition, view)), default=0)
    return columns


def _draw(box: Box) -> str:
    return (
        f'<rect x="{box.left}" y="{box.top}" width="{WIDTH}" height="{HEIGHT}" rx="8" fill="{_COLOURS[box.kind]}"/>'
        f'<text x="{box.left + 12}" y="{box.top + 23}">{escape(_cut(box.name))}</text>'
        f'<text class="what" x="{box.left + 12}" y="{box.top + 42}">{escape(_cut(box.what))}'
        f"<title>{escape(box.what)}</title></text>"
    )


def _arrow(start: Box, end: Box) -> str:
    x1, y1 = start.left + WIDTH, start.top + HEIGHT // 2
    x2, y2 = end.left, end.top + HEIGHT // 2
    return f'<path d="M{x1} {y1}C{x1 + GAP_X // 2} {y1} {x2 - GAP_X // 2} {y2} {x2} {y2}" marker-end="url(#tip)"/>'


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 1] + "…"
