"""docs/security.md names every limit with its default, and gives no other."""

from __future__ import annotations

import re
from pathlib import Path

from warren.config import OPTIONS, Config

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
ROW = re.compile(r"^\| `(\w+)` \| `(.+)` \| (.+) \|$", re.MULTILINE)
IS_LIMIT = re.compile(r"_max$|^max_|_limit$|_timeout_ms$|_reserved$|_watermark$")


def test_the_page_lists_every_limit_with_its_default_and_a_reason() -> None:
    rows = {name: default for name, default, _ in ROW.findall(PAGE.read_text())}
    defaults = Config()
    assert rows == {name: repr(getattr(defaults, name)) for name in OPTIONS if IS_LIMIT.search(name)}
