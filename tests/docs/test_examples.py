"""What the documents promise: every example runs and prints what stands there, every link leads somewhere."""

from __future__ import annotations

import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs.examples import Block, Reader, blocks_in, commands_in, matches

ROOT = Path(__file__).parents[2]
GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
# The first starts Spark again and again.
STARTS_SPARK = {"message-path.md": [pytest.mark.spark, pytest.mark.long], "spark.md": [pytest.mark.spark]}
WITH_EXAMPLES = [guide for guide in GUIDES if any(block.is_example for block in blocks_in(guide))]


def name_of(document: object) -> str:
    assert isinstance(document, Path)
    return str(document.relative_to(ROOT))


def marked(guide: Path) -> object:
    """Those that start Spark are run where Spark is run."""
    return pytest.param(guide, marks=STARTS_SPARK.get(guide.name, []))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("guide", [marked(guide) for guide in WITH_EXAMPLES], ids=name_of)
def test_the_examples_run_and_print_what_they_say(guide: Path, tmp_path: Path) -> None:
    if "curl" in commands_used(guide) and shutil.which("curl") is None:
        pytest.skip(f"{guide.name} uses curl, which is not installed here")
    if "etcd" in commands_used(guide) and shutil.which("etcd") is None:
        pytest.skip(f"{guide.name} uses etcd, which is not installed here")
    if "openssl" in commands_used(guide) and shutil.which("openssl") is None:
        pytest.skip(f"{guide.name} uses openssl, which is not installed here")
    missing = sorted(name for name in modules_used(guide) if find_spec(name) is None)
    if missing:
        pytest.skip(f"{guide.name} uses {', '.join(missing)}, which is not installed here")
    reader = Reader(tmp_path)
    try:
        for block in blocks_in(guide):
            if block.is_example:
                reader.do(block)
    finally:
        reader.close()


def commands_used(guide: Path) -> set[str]:
    texts = [block.text for block in blocks_in(guide) if block.kind in ("console", "sh")]
    return {word for text in texts for word in re.findall(r"^(?:\$ )?(\w+)", text, re.MULTILINE)}


def modules_used(guide: Path) -> set[str]:
    texts = [block.text for block in blocks_in(guide) if block.kind == "python"]
    return {
        name for text in texts for name in re.findall(r"^(?:import|from) (fastapi|faststream|celery)\b", text, re.M)
    }


def test_every_page_is_found_from_the_first_one() -> None:
    landing = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(([\w.-]+\.md)", landing))
    assert {path.name for path in (ROOT / "docs").glob("*.md")} == {*linked, "README.md"}


def test_figures_of_the_first_page_are_those_of_the_page_about_speed() -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## How fast")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    assert len(rows) > 5
    assert set(rows) <= set((ROOT / "docs" / "speed.md").read_text(encoding="utf-8").splitlines())


def test_the_first_screen_is_among_them() -> None:
    assert ROOT / "README.md" in WITH_EXAMPLES


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (document.parent / target).exists(), f"{name_of(document)} links to {target}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_files_that_are_named_exist(document: Path) -> None:
    for name in re.findall(r"`((?:src|tests|docs|bench)/[\w./-]+)`", document.read_text(encoding="utf-8")):
        assert (ROOT / name).exists(), f"{name_of(document)} names {name}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_files_that_are_named_below_the_package_exist(document: Path) -> None:
    package = ROOT / "src" / "warren"
    folders = "|".join(path.name for path in package.iterdir() if path.is_dir())
    for name in re.findall(rf"`((?:{folders})/[\w./-]+)`", document.read_text(encoding="utf-8")):
        assert (package / name).exists(), f"{name_of(document)} names {name}"


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = [int(path.name[:4]) for path in sorted((ROOT / "docs" / "decisions").glob("*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_command_goes_on_after_a_backslash_and_owns_the_lines_below_it() -> None:
    assert commands_in("$ one \\\n  more\nout\n$ two\n") == [("one   more", "out\n"), ("two", "")]


def test_two_who_read_the_same_page_at_once_have_ports_of_their_own(tmp_path: Path) -> None:
    readers = []
    try:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            readers.append(Reader(tmp_path / name))
            readers[-1].do(Block("toml", "ports.toml", "peer = 25790\nfirst = 25701\nelse = 25672\n", 1))
        found = [(tmp_path / name / "work" / "ports.toml").read_text().split() for name in ("one", "two")]
        peers, firsts = [[int(words[place]) for words in found] for place in (2, 5)]
        assert len({*peers, *firsts}) == 4
        assert [peer - first for peer, first in zip(peers, firsts, strict=True)] == [89, 89]
        assert [words[8] for words in found] == ["25672", "25672"]
    finally:
        for reader in readers:
            reader.close()


def test_printed_text_is_compared_but_for_what_is_left_open() -> None:
    assert matches("1 passed in 0.1s\n", "1 passed in ...s")
    assert not matches("2 passed in 0.1s", "1 passed in ...s")
    assert not matches("1 passed in 0.1s, and more", "1 passed in ...s")
