"""A lease that goes on while a node that was elected reads its files."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

from warren.server.etcd import Etcd, EtcdError

log = logging.getLogger("warren.cluster")

# Seconds that recovery may take.
_RECOVERY: Final = 600.0


class Pacemaker:
    """Renews the lease while what is on disk is read, for which the loop is not free: a large store must not cost its
    node the lead. For so long only as such a thing may take."""

    def __init__(self, etcd: Etcd, lease: int, every: float, is_recovered: threading.Event) -> None:
        self._etcd = etcd
        self._lease = lease
        # Seconds.
        self._every = every
        self._is_recovered = is_recovered
        self._thread = threading.Thread(target=self._run, name="warren-pacemaker", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        end = time.monotonic() + _RECOVERY
        while not self._is_recovered.wait(self._every) and time.monotonic() < end:
            try:
                self._etcd.keep_alive(self._lease)
            except EtcdError as error:
                log.warning("%s", error)
        self._etcd.close()

    def stop(self) -> None:
        self._is_recovered.set()
        self._thread.join()
