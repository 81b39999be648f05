"""Names of places: paths of this machine, and addresses with a scheme, which Spark reaches."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

# Addresses that Arrow reaches, for Python where there is no door to Spark.
BY_ARROW: Final = ("s3", "s3a", "gs", "hdfs", "abfs", "abfss")


def is_local(place: str) -> bool:
    return scheme_of(place) in ("", "file")


def scheme_of(place: str) -> str:
    """Empty for a path, also one with a colon in a name."""
    scheme = urlsplit(place).scheme
    return scheme if place.startswith((f"{scheme}:/", "file:")) else ""


def local_path(place: str) -> Path:
    return Path(unquote(urlsplit(place).path)) if scheme_of(place) == "file" else Path(place)


def absolute(place: str, base: Path) -> str:
    return str((base / local_path(place)).resolve()) if is_local(place) else place.rstrip("/")
