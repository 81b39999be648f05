"""Small scripts that stand in front of a program which Spark starts: made once for a user, and kept."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def script_at(name: str, text: str) -> Path:
    """A program that does this, at a place of this name. The same every time, so that it is made once."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "warren")
    try:
        (cache / name).parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        cache = Path(tempfile.mkdtemp(prefix="warren-"))
        (cache / name).parent.mkdir(parents=True)
    script = cache / name
    if not script.exists() or script.read_text() != text:
        # Renamed into place: somebody else may be about to run it.
        fresh = script.with_name(f"{script.name}.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.rename(script)
    return script
