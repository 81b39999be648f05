"""How to get what a plain installation does without. Said the same way wherever something is missing.

By the folder or the file, never by a name alone: `warren` on PyPI is somebody else's package.
"""

from __future__ import annotations


def how_to_install(extra: str) -> str:
    return f"pip install '.[{extra}]' in a clone of Warren"
