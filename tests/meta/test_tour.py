"""The tour through the source is true and complete: what it names is there, and nothing of the broker is left out."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "warren"
TOUR = (ROOT / "docs" / "reading-order.md").read_text()
NAMED = set(re.findall(r"`([\w/.]+\.(?:py|js))`", TOUR))


def test_every_file_that_the_tour_names_is_there() -> None:
    places = (PACKAGE, PACKAGE / "broker", ROOT)
    by_name = {path.name for path in PACKAGE.rglob("*") if path.suffix in (".py", ".js")}
    wrong = [
        name
        for name in sorted(NAMED)
        if not (any((place / name).is_file() for place in places) or ("/" not in name and name in by_name))
    ]
    assert wrong == []


def test_the_tour_leaves_no_file_of_the_broker_out() -> None:
    shown = {name.rpartition("/")[2] for name in NAMED}
    # Folders of which it says that all files are alike.
    folders = {PACKAGE / "broker" / "exchanges", PACKAGE / "broker" / "declare"}
    left_out = [
        str(path.relative_to(PACKAGE))
        for path in sorted((PACKAGE / "broker").rglob("*.py"))
        if path.name not in {*shown, "__init__.py"} and path.parent not in folders and "definitions" not in path.parts
    ]
    assert left_out == []
