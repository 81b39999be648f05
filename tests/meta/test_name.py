"""The distribution is called warrenmq, and no text sends anybody to the package `warren` of somebody else on PyPI."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "src", "examples", "bench", ".ci")
KINDS = {".md", ".py", ".sh", ".toml", ".yaml", ".yml", ".html", ".js", ""}
# A bare name, with extras or without; a path such as ../warren, and warrenmq, are ours.
BY_NAME = re.compile(r"""(?<!un)install\b[^\n`]*?[\s'"]warren(?![\w./-])""")
EXTRA_BY_NAME = re.compile(r"(?<![\w./-])warren\[(?:spark|otel|avro|dev|bench)\]")


def texts() -> list[Path]:
    inside = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    found = [path for path in [*ROOT.iterdir(), *inside] if path.is_file() and path.suffix in KINDS]
    return [path for path in found if not any(part.endswith(".egg-info") for part in path.parts)]


def recommends_foreign(text: str) -> bool:
    return any(BY_NAME.search(line) or EXTRA_BY_NAME.search(line) for line in text.splitlines())


def test_the_distribution_has_a_name_of_its_own_and_the_command_stays() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == "warrenmq"
    assert project["scripts"] == {"warren": "warren.cli.main:main"}


def test_no_text_recommends_the_foreign_package() -> None:
    read = {path: path.read_text(encoding="utf-8", errors="replace") for path in texts()}
    assert ROOT / "README.md" in read
    assert ROOT / "Makefile" in read
    assert [str(path.relative_to(ROOT)) for path, text in read.items() if recommends_foreign(text)] == []


@pytest.mark.parametrize(
    "text",
    ["pip install warren", "pip install 'warren[spark]' pika", "`pip install pika warren`", "comes with warren[spark]"],
)
def test_a_recommendation_is_found(text: str) -> None:
    assert recommends_foreign(text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install ../warren pika",
        "pip install '../warren[spark]'",
        "pip install warrenmq-0.1.0-py3-none-any.whl",
        "pip install '.[spark]' in a clone of Warren",
        "installed, `warren serve` starts",
        "pip uninstall warren",
    ],
)
def test_a_path_or_a_wheel_is_none(text: str) -> None:
    assert not recommends_foreign(text)
