"""Tells systemd how the service is (sd_notify): a datagram to the socket that it names, where it does."""

from __future__ import annotations

import os
import socket
import time
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"


def notify(state: str) -> None:
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    # A name that begins with @ is in no folder: it stands for a zero byte.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        try:
            sender.sendto(state.encode(), f"\0{address[1:]}" if address.startswith("@") else address)
        except OSError:
            # Whoever started us is not there any more; that is no reason to stop.
            return


def reloading() -> str:
    """systemd takes it for begun when the time is told with it."""
    return f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}"
