"""The data pipeline on Spark: messages as DataFrames. Needs what `pip install warren[spark]` brings."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warren.spark.path import MessagePath

__all__ = ["MessagePath"]


def __getattr__(name: str) -> object:
    # Looked up when first asked for: options and columns serve without Spark too.
    if name == "MessagePath":
        from warren.spark.path import MessagePath

        return MessagePath
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
