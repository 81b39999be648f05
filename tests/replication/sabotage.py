"""Promises that nodes break on purpose, to see that the simulation finds out. Nothing of this is in the product."""

from __future__ import annotations

from typing import Final

from tests.store.simulated_disk import SimulatedDisk

KINDS: Final = (
    "no waiting",
    "acks unsynced",
    "shrinks before etcd",
    "outsider leads",
    "half copied leads",
    "speaks for ever",
    "unsynced disk",
    "opens at once",
    "shows uncommitted",
    "tells unsynced",
    "forgets counts",
    "notes no counts",
    "tells counts at once",
    "forgets deliveries",
    "resumes anybody",
)
_on = [""]


def switch(name: str) -> None:
    _on[0] = name


def is_on(name: str) -> bool:
    return _on[0] == name


class Forgetful(SimulatedDisk):
    def sync(self, handle: int) -> None:
        pass


def new_disk() -> SimulatedDisk:
    return Forgetful() if is_on("unsynced disk") else SimulatedDisk()


def same_kind(disk: SimulatedDisk) -> SimulatedDisk:
    return Forgetful(disk.files()) if is_on("unsynced disk") else disk
