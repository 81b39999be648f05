"""Who a node of a cluster is, and what it must not forget: a small file in its data folder, never copied to another.

An empty disk is a new node: it cannot win an election on the memory of an old one.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Final

from warren.errors import WarrenError
from warren.store.disk import RealDisk

FILE_NAME: Final = "node.json"
# Another one whenever a machine starts.
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


class Identity:
    """A NodeMemory of replication/follower.py."""

    def __init__(self, folder: Path, cluster: str) -> None:
        self._path = folder / FILE_NAME
        if self._path.exists():
            self._load(cluster)
        else:
            self.uuid = str(uuid.uuid4())
            self.cluster = cluster
            self.epoch = 0
            self.is_copying = False
            self._save()

    def _load(self, cluster: str) -> None:
        try:
            known = json.loads(self._path.read_text(encoding="utf-8"))
            self.uuid, self.cluster = str(known["uuid"]), str(known["cluster"])
            self.epoch, self.is_copying = int(known["epoch"]), bool(known["copying"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise WarrenError(f"{self._path} is damaged: {error}") from error
        if self.cluster != cluster:
            raise WarrenError(f"{self._path.parent} belongs to the cluster '{self.cluster}', not to '{cluster}'")

    @property
    def place(self) -> str:
        """Which folder, of which machine, since when that is up: only one process at a time has it locked."""
        about = self._path.parent.stat()
        boot = _BOOT.read_text(encoding="ascii").strip() if _BOOT.exists() else ""
        return f"{boot} {about.st_dev} {about.st_ino}"

    def remember_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        self._save()

    def remember_copying(self, is_copying: bool) -> None:
        if is_copying != self.is_copying:
            self.is_copying = is_copying
            self._save()

    def _save(self) -> None:
        known = {"uuid": self.uuid, "cluster": self.cluster, "epoch": self.epoch, "copying": self.is_copying}
        RealDisk(self._path.parent).replace(FILE_NAME, json.dumps(known).encode())
