"""What a follower may show of its files: as much as every node that may lead has, durably.

An op is done here before the others have it, and is cut off again when they never get it. So each is noted when it is
done, and counts when the leader says how far it is committed. Nothing is shown before that covers the copy that a
follower began with.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from warren.replication.ops import APPEND, REMOVE, REPLACE, TRUNCATE, Op

# The size of a file that is not there any more.
GONE: Final = -1
# So many ops are noted one by one. A leader of an older release never says how far it is.
NOTED_MAX: Final = 65536


class Committed:
    def __init__(self, whole_at: int, files: dict[str, int]) -> None:
        """Begins with these files, which are a state of the leader's, committed or not, when all up to that op is
        done."""
        self._whole_at = whole_at
        # By file, what of it may be shown; nothing at all before `is_known`.
        self.sizes = files
        self.is_known = False
        # Ops that were done, and what size of which file they leave.
        self._noted: deque[tuple[int, str, int]] = deque()
        self._fold_at = NOTED_MAX

    def note(self, op: Op) -> None:
        if op.kind == APPEND:
            size = op.at + len(op.data)
        elif op.kind == REPLACE:
            size = len(op.data)
        else:
            # What a file is cut to. One that was created has room for so much, and nothing in it.
            size = GONE if op.kind == REMOVE else op.at if op.kind == TRUNCATE else 0
        self._noted.append((op.number, op.name, size))
        if len(self._noted) > self._fold_at:
            self._fold()

    def _fold(self) -> None:
        """What each of them leaves counts with the last of them: shown later, and never too soon."""
        last = self._noted[-1][0]
        sizes = {name: size for _, name, size in self._noted}
        self._noted = deque((last, name, size) for name, size in sizes.items())
        self._fold_at = max(NOTED_MAX, 2 * len(self._noted))

    @property
    def noted(self) -> int:
        return len(self._noted)

    def reach(self, op: int) -> dict[str, int]:
        """All up to this op is committed. Gives what has changed: sizes of files, at first of all of them."""
        # 0 is no op: an older release says nothing else, and a leader that has not opened yet.
        if op < max(self._whole_at, 1):
            return {}
        changed: dict[str, int] = {}
        while self._noted and self._noted[0][0] <= op:
            _, name, size = self._noted.popleft()
            changed[name] = size
            if size == GONE:
                self.sizes.pop(name, None)
            else:
                self.sizes[name] = size
        if not self.is_known:
            self.is_known = True
            return dict(self.sizes)
        return changed
