"""A pipeline's file, read and checked as a whole: the definition, or every mistake with its line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from warren.client.address import DEFAULT_URI
from warren.errors import WarrenError
from warren.spark.pipelines.check import check
from warren.spark.pipelines.document import FileNode, Mistakes, read_text
from warren.spark.pipelines.model import Definition, Restart, Sink, Source, View
from warren.spark.pipelines.read_sink import read_dead_letters, read_sink
from warren.spark.pipelines.read_source import read_source, read_watermark
from warren.spark.pipelines.section import NAME, FileSection
from warren.spark.places import absolute, is_local

STATE_FOLDER: Final = ".warren"


class PipelineMistakes(WarrenError):
    def __init__(self, mistakes: Mistakes) -> None:
        self.lines = mistakes.lines()
        count = len(self.lines)
        super().__init__(f"{count} mistake{'' if count == 1 else 's'} in {mistakes.file}: {'; '.join(self.lines)}")


def load(path: Path, environment: Mapping[str, str] = os.environ) -> Definition:
    return loads(read_text(path), str(path), path.resolve().parent, environment)


def loads(text: str, file: str, base: Path, environment: Mapping[str, str] = os.environ) -> Definition:
    # Only here: the command's help is there without PyYAML too.
    from warren.spark.pipelines.yaml_tree import parse

    mistakes = Mistakes(file)
    node = parse(text, mistakes, environment)
    definition = None if node is None else read(FileSection(node, "", mistakes), file, base, mistakes)
    if definition is not None:
        check(definition, mistakes)
    if mistakes or definition is None:
        raise PipelineMistakes(mistakes)
    return definition


def read(section: FileSection, file: str, base: Path, mistakes: Mistakes) -> Definition:
    name = section.text("pipeline")
    if not section.has("pipeline"):
        section.mistake(1, '"pipeline" is missing: the name of the pipeline')
    elif name and NAME.fullmatch(name.replace("-", "_")) is None:
        section.mistake(section.line_of("pipeline"), f'"{name}" is no name: letters, digits, _ and - please')
    own = f"{STATE_FOLDER}/{name}"
    folder = section.text("folder", own)
    definition = Definition(
        name=name,
        base=base,
        file=file,
        broker=_url(section, "broker", DEFAULT_URI, ("amqp", "amqps")),
        api=_url(section, "api", "", ("http", "https")),
        folder=Path(absolute(folder if is_local(folder) else own, base)),
        storage="" if is_local(folder) else absolute(folder, base),
        master=section.text("master"),
        spark={key: text for key, (text, _) in section.mapping("spark").items()},
        sources=_read_sources(section, mistakes),
        views=_read_views(section, mistakes),
        sinks=_read_sinks(section, base, mistakes),
        dead_letters=read_dead_letters(section.section("dead-letters")),
        restart=_read_restart(section.section("restart")),
    )
    section.finish()
    for key, what in (("sources", "where messages come from"), ("sinks", "where results go")):
        if not section.has(key):
            section.mistake(1, f'"{key}" is missing: {what}')
    return definition


def _read_sources(section: FileSection, mistakes: Mistakes) -> dict[str, Source]:
    found = [
        read_source(name, node, line, mistakes) for name, node, line in section.named_sections("sources", "source")
    ]
    return {source.name: source for source in found}


def _read_views(section: FileSection, mistakes: Mistakes) -> dict[str, View]:
    return {
        name: _read_view(name, node, line, mistakes) for name, node, line in section.named_sections("views", "view")
    }


def _read_view(name: str, node: FileNode, line: int, mistakes: Mistakes) -> View:
    if isinstance(node.value, str):
        return View(name, node.value, line=node.line)
    inner = FileSection(node, f'view "{name}"', mistakes)
    inner.line = line
    view = View(name, inner.text("sql"), watermark=read_watermark(inner), line=inner.line_of("sql"))
    if not inner.has("sql"):
        inner.mistake(line, '"sql" is missing: the query')
    inner.finish()
    return view


def _read_sinks(section: FileSection, base: Path, mistakes: Mistakes) -> dict[str, Sink]:
    found = [
        read_sink(name, node, line, base, mistakes) for name, node, line in section.named_sections("sinks", "sink")
    ]
    return {sink.name: sink for sink in found if sink is not None}


def _read_restart(section: FileSection | None) -> Restart:
    if section is None:
        return Restart()
    restart = Restart(section.number("attempts", Restart.attempts, 0), section.seconds("delay", Restart.seconds))
    section.finish()
    return restart


def _url(section: FileSection, key: str, default: str, schemes: tuple[str, ...]) -> str:
    text = section.text(key, default)
    if text and (urlsplit(text).scheme not in schemes or not urlsplit(text).hostname):
        section.mistake(
            section.line_of(key), f'"{key}" must be an address such as {schemes[0]}://guest:guest@127.0.0.1'
        )
    return text
