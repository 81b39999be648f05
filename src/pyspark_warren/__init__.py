"""Spark looks for modules named pyspark_* and finds the format "warren" by this one."""

from warren.spark.source import WarrenSource as DefaultSource

__all__ = ["DefaultSource"]
