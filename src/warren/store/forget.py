"""Giving up messages whose queues are not defined any more. The broker keeps them until somebody says so."""

from __future__ import annotations

from pathlib import Path

from warren.errors import WarrenError
from warren.store.chores import Chore
from warren.store.definitions_recovery import recover_definitions
from warren.store.disk import RealDisk
from warren.store.log import LogStore
from warren.store.recovery import recover


class Undefined:
    """A store that is opened to look for them. Nobody else may have it open."""

    def __init__(self, folder: Path) -> None:
        try:
            self._store: LogStore = recover(RealDisk(folder))
            rows = recover_definitions(self._store, [])
        except OSError as error:
            raise WarrenError(f"{folder} cannot be opened: {error}") from error
        defined = {str(value["incarnation"]) for _, _, value in rows if "incarnation" in value}
        for key in [key for key in self._store.unclaimed.lanes if key[2] in defined]:
            del self._store.unclaimed.lanes[key]
        for incarnation in [name for name in self._store.streams.recovered if name in defined]:
            del self._store.streams.recovered[incarnation]

    def lines(self) -> list[str]:
        return self._store.unclaimed.lines()

    def give_up(self) -> None:
        store = self._store
        store.unclaimed.forget(store.unclaimed.incarnations())
        store.write()
        while (work := store.begin_sync() or store.next_chore()) is not None:
            work.run(store.disk)
            if isinstance(work, Chore):
                store.chore_done(work)
            else:
                store.sync_done(work)

    def close(self) -> None:
        self._store.close()
