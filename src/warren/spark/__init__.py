"""The data pipeline on Spark: messages as DataFrames. Needs what the extra `spark` brings.

`spark = session("app")`, then `spark.read.format("warren")`, `readStream`, `write` and `writeStream`, and
`MessagePath(definitions).run(publishes)`: what a broker would do with a table of publishes. `Pipeline` puts sources,
SQL and sinks together, as the files of `warren pipeline` do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warren.spark.path import MessagePath
    from warren.spark.pipelines.pipeline import Pipeline
    from warren.spark.spark_session import session

__all__ = ["MessagePath", "Pipeline", "session"]


def __getattr__(name: str) -> object:
    # Looked up when first asked for: options and columns serve without Spark too.
    if name == "session":
        from warren.spark.spark_session import session

        return session
    if name == "MessagePath":
        from warren.spark.path import MessagePath

        return MessagePath
    if name == "Pipeline":
        from warren.spark.pipelines.pipeline import Pipeline

        return Pipeline
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
