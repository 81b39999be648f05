"""The graph of a pipeline as text: a tree from each source down to the sinks that it feeds."""

from __future__ import annotations

from warren.spark.pipelines.describe import describe_dead_letters, describe_sink, describe_source
from warren.spark.pipelines.graph import declared_name, inputs_of
from warren.spark.pipelines.model import Definition, OnError


def draw_text(definition: Definition) -> str:
    drawing = _Drawing(definition)
    for source in definition.sources.values():
        drawing.lines.append(f"{source.name}  ({describe_source(source)})")
        drawing.below(source.name, "")
        drawing.lines.append("")
    return "\n".join(drawing.lines).rstrip() + "\n"


class _Drawing:
    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self._drawn: set[str] = set()
        self.lines: list[str] = []

    def below(self, name: str, indent: str) -> None:
        definition = self._definition
        children = [(view, "") for view in definition.views if name in inputs_of(definition, view)]
        children += [
            (sink.name, describe_sink(sink))
            for sink in definition.sinks.values()
            if declared_name(definition, sink.origin) == name
        ]
        source = definition.sources.get(name)
        if source is not None and source.can_misfit and source.on_error is OnError.DEAD_LETTER:
            children.append(("misfits", describe_dead_letters(definition)))
        for number, (child, sink) in enumerate(children):
            is_last = number == len(children) - 1
            branch, stem = ("└─", "   ") if is_last else ("├─", "│  ")
            if sink:
                self.lines.append(f"{indent}{branch}▶ {child}  ({sink})")
                continue
            others = [each for each in inputs_of(definition, child) if each != name]
            joined = f"  + {', '.join(others)}" if others else ""
            if child in self._drawn:
                self.lines.append(f"{indent}{branch} {child}{joined}  (see above)")
                continue
            self._drawn.add(child)
            self.lines.append(f"{indent}{branch} {child}{joined}")
            self.below(child, indent + stem)
