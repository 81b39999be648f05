"""What the Spark part needs beyond the broker, and one sentence for whoever lacks it."""

from __future__ import annotations

from importlib.util import find_spec

from warren.errors import WarrenError
from warren.extras import how_to_install


def require_pyspark() -> None:
    for name in ("pyspark", "pyarrow", "numpy", "pandas"):
        if find_spec(name) is None:
            raise WarrenError(f"{name} is not installed; the data pipeline needs it: {how_to_install('spark')}")
