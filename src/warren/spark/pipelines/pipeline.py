"""`warren.spark.Pipeline`: the model of the file, built in Python, where a step may also be a function.

orders = Pipeline("orders", broker="amqp://...")
orders.source("placed", stream="orders", schema="id BIGINT, amount DOUBLE")
orders.view("large", "SELECT * FROM placed WHERE amount > 100")

@orders.step("large")
def doubled(large: DataFrame) -> DataFrame: ...

orders.sink("out", "doubled", exchange="large-orders")
orders.run(once=True)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from warren.errors import WarrenError
from warren.spark.pipelines.check import check
from warren.spark.pipelines.document import FileNode, Mistakes, Value
from warren.spark.pipelines.draw_svg import draw_svg
from warren.spark.pipelines.draw_text import draw_text
from warren.spark.pipelines.model import Definition, Step, View
from warren.spark.pipelines.read_file import STATE_FOLDER, PipelineMistakes, read
from warren.spark.pipelines.section import FileSection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Where a file would have a line.
NO_LINE: Final = 0


class Pipeline:
    """Options are those of the file, with _ in place of -, and `as_` for `as`."""

    def __init__(self, name: str, **options: Any) -> None:
        self._content: dict[str, Any] = {"pipeline": name, **_options(options), "sources": {}, "views": {}, "sinks": {}}
        self._steps: dict[str, View] = {}

    def source(self, name: str, **options: Any) -> Pipeline:
        return self._add("sources", name, options)

    def view(self, name: str, sql: str, **options: Any) -> Pipeline:
        return self._add("views", name, {"sql": sql, **options})

    def step(self, *inputs: str) -> Callable[[Step], Step]:
        """A view made by a function: it is handed one DataFrame for each name, and its own name is the view's."""

        def add(function: Step) -> Step:
            name = function.__name__
            self._refuse_second(name)
            self._steps[name] = View(name, function=function, inputs=inputs)
            return function

        return add

    def sink(self, name: str, origin: str, **options: Any) -> Pipeline:
        return self._add("sinks", name, {"from": origin, **options})

    @property
    def definition(self) -> Definition:
        """Checked as a file is; raises with every mistake."""
        mistakes = Mistakes(f"pipeline {self._content['pipeline']}")
        content = {key: value for key, value in self._content.items() if value or key != "views"}
        base = Path.cwd()
        content.setdefault("folder", str(base / STATE_FOLDER / content["pipeline"]))
        definition = read(FileSection(_node(content), "", mistakes), mistakes.file, base, mistakes)
        definition = replace(definition, views={**definition.views, **self._steps})
        check(definition, mistakes)
        if mistakes:
            raise PipelineMistakes(mistakes)
        return definition

    def plan(self) -> str:
        return draw_text(self.definition)

    def svg(self) -> str:
        return draw_svg(self.definition)

    def run(self, once: bool = False, spark: SparkSession | None = None) -> dict[str, Any]:
        """Returns the last status when all queries have ended: with `once`, when what was there is worked off."""
        from warren.spark.pipelines.runner import run

        return run(self.definition, once=once, spark=spark)

    def _add(self, part: str, name: str, options: dict[str, Any]) -> Pipeline:
        self._refuse_second(name if part != "sinks" else "", part)
        if name in self._content[part]:
            raise WarrenError(f"{part[:-1]} {name!r} is there already")
        self._content[part][name] = _options(options)
        return self

    def _refuse_second(self, name: str, part: str = "views") -> None:
        if name and (name in self._content["views"] or name in self._content["sources"] or name in self._steps):
            raise WarrenError(f"a source or view {name!r} is there already")


def _node(value: Any) -> FileNode:
    """As if it had been read from a file."""
    if isinstance(value, dict):
        return FileNode({key: _node(each) for key, each in value.items()}, NO_LINE, dict.fromkeys(value, NO_LINE))
    if isinstance(value, (list, tuple)):
        return FileNode([_node(each) for each in value], NO_LINE)
    if isinstance(value, Path):
        return FileNode(str(value), NO_LINE)
    plain: Value = value
    return FileNode(plain, NO_LINE)


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """Keywords of Python as keys of the file: `routing_key` is `routing-key`, and `as_` is `as`."""
    return {
        key.rstrip("_").replace("_", "-"): _options(value) if key in _NESTED else value for key, value in given.items()
    }


# Others hold names that are the user's own: settings of Spark, expectations.
_NESTED: Final = ("dead_letters", "restart", "watermark")
