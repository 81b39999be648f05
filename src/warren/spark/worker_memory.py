"""What a Python process of Spark's has loaded stays: it need not be looked through for garbage again and again.

Spark keeps these processes from task to task, and has each collect all garbage after each of them. That looks at every
object of every module, 20 ms a time for five processes of a micro-batch that has one message.
"""

from __future__ import annotations

import gc
import os
from functools import cache
from typing import Final

# Spark sets it for processes that it keeps.
_KEPT: Final = "SPARK_REUSE_WORKER"


@cache
def keep_modules() -> None:
    """To be called by what runs there, when all is loaded. Does nothing elsewhere, and nothing the second time."""
    if _KEPT in os.environ:
        gc.collect()
        gc.freeze()
