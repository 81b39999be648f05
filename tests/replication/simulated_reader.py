"""One who reads a stream from a follower of the simulation, by the product's own view of the copy."""

from __future__ import annotations

from collections.abc import Callable

from tests.broker.still_world import StillHost
from tests.store.simulated_disk import SimulatedDisk
from warren.broker.node import Node
from warren.broker.operate.definitions.following import take
from warren.broker.queue.stream_log import StreamCursor
from warren.broker.settings import Settings
from warren.broker.stream.stream import Stream
from warren.replication.committed import GONE
from warren.store.definitions import LOG_ENDING
from warren.store.mirror import CommittedDisk, CopySurvey, MirrorStore

KINDS = ("vhost", "user", "permission", "queue")


class FollowerReader:
    """Shows each record of a stream once, in order. Of one connection to a leader: with it, it ends."""

    def __init__(self, disk: SimulatedDisk, stream: str, shows: Callable[[int, str], None]) -> None:
        self._disk = disk
        self._stream = stream
        self._shows = shows
        self._sizes: dict[str, int] = {}
        self._node: Node | None = None
        self._store: MirrorStore | None = None
        self._cursor: StreamCursor | None = None

    def committed(self, sizes: dict[str, int]) -> None:
        for name, size in sizes.items():
            if size == GONE:
                self._sizes.pop(name, None)
            else:
                self._sizes[name] = size
        is_folded = any(size == GONE and name.endswith(LOG_ENDING) for name, size in sizes.items())
        try:
            if self._store is None or is_folded:
                self._begin()
            else:
                self._take(self._store, sizes)
        except FileNotFoundError:
            # It went after it was committed: the next word begins it again.
            self._store = None
            return
        self._read()

    def _begin(self) -> None:
        self._store = self._cursor = None
        survey = CopySurvey(CommittedDisk(self._disk, dict(self._sizes)))
        assert not survey.damage, survey.damage
        self._store = MirrorStore(survey)
        self._node = Node(StillHost(), Settings(), None, self._store)
        for kind in KINDS:
            for row in survey.rows:
                if row[0] == kind:
                    assert not take(self._node, *row)

    def _take(self, store: MirrorStore, sizes: dict[str, int]) -> None:
        assert self._node is not None
        for name, size in sizes.items():
            if name.endswith(LOG_ENDING):
                for change in store.changes(name, size):
                    assert not take(self._node, *change)
        for name, size in sizes.items():
            store.file_changed(name, size)
        while store.grow():
            pass

    def _read(self) -> None:
        assert self._node is not None
        vhost = self._node.vhosts.get("/")
        queue = None if vhost is None else vhost.queues.get(self._stream)
        if queue is None:
            return
        assert isinstance(queue, Stream)
        if self._cursor is None:
            self._cursor = queue.log.cursor(0)
        while (record := self._cursor.next()) is not None:
            self._shows(int(record.offset), record.wire[record.suffix_size :].hex())
