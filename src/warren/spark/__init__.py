"""The data pipeline on Spark: messages as DataFrames. Needs what `pip install warren[spark]` brings.

`spark = session("app")`, then `spark.read.format("warren")`, `readStream`, `write` and `writeStream`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warren.spark.spark_session import session

__all__ = ["session"]


def __getattr__(name: str) -> object:
    # Looked up when first asked for: options and columns serve without Spark too.
    if name == "session":
        from warren.spark.spark_session import session

        return session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
