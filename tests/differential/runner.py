"""Plays sessions against a broker, many at a time, and gives their recordings."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from tests.differential import sessions
from tests.differential.brokers import Broker
from tests.differential.recording import Recording
from tests.differential.session import SESSIONS, Entry, Session, Turn

# Sessions wait far more than they compute: for the three seconds of a silent close, for a TTL.
AT_A_TIME: Final = 16


def play(broker: Broker, names: Iterable[str] | None = None) -> dict[str, Recording]:
    """The recordings of these sessions (all of them by default) by name."""
    sessions.load()
    entries = [SESSIONS[name] for name in (SESSIONS if names is None else names)]
    play_one = partial(_play_one, broker, secrets.token_hex(2))
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        together = [entry for entry in entries if entry.turn is Turn.TOGETHER]
        recordings = dict(zip([entry.name for entry in together], pool.map(play_one, together), strict=True))
    for turn in (Turn.ALONE, Turn.LAST):
        recordings |= {entry.name: play_one(entry) for entry in entries if entry.turn is turn}
    return recordings


def _play_one(broker: Broker, run: str, entry: Entry) -> Recording:
    # Of one length for all sessions and runs: reply texts are cut at 255 characters, names and all.
    prefix = f"x{run}{list(SESSIONS).index(entry.name):03d}-"
    return Session(broker.address, broker.admin, prefix).play(entry.script)
