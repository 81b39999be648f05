"""Python's collector of garbage, in a process that makes objects by the million and cycles hardly ever."""

from __future__ import annotations

import gc


def spare_everyone() -> None:
    """What is there now (modules, definitions) stays for good, and is not walked again. All that comes later is looked
    through seldom: of 50,000 queues that takes half a second. What is new in pieces of some ten thousand objects,
    because fifty thousand are 20 ms in which nobody is served.
    """
    gc.freeze()
    gc.set_threshold(5_000, 2, 50_000)
