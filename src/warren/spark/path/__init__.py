"""The message path over DataFrames: docs/message-path.md."""

from __future__ import annotations

from warren.spark.path.message_path import MessagePath
from warren.spark.path.result import PathResult

__all__ = ["MessagePath", "PathResult"]
