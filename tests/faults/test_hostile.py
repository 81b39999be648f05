"""The short form of codec.py and hostile.py, and that each would notice."""

from __future__ import annotations

import logging

import pytest

from tests.faults import codec, hostile


def test_damaged_bytes_are_refused_or_read_and_nothing_else() -> None:
    report = codec.fuzz(5000, 7)
    assert report.escaped == []
    # Some are damaged where it does not matter: else nothing but the first check would be tried.
    assert 500 < report.read < 4500


def test_a_codec_that_raises_something_else_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(data: bytes) -> None:
        assert data[0] < 0x80

    monkeypatch.setattr(codec, "seeds", lambda: [(bytes(8), careless)])
    assert len(codec.fuzz(5000, 1).escaped) == 10


@pytest.mark.long
@pytest.mark.timeout(120)
def test_damaged_sessions_harm_nobody_else() -> None:
    report = hostile.sessions(200, 1)
    assert report.is_well(), report


@pytest.mark.long
@pytest.mark.timeout(120)
def test_silent_and_lying_sockets_are_dropped_and_harm_nobody_else() -> None:
    report = hostile.sockets(60)
    assert report.is_well(), report


def test_a_fault_of_the_broker_is_noticed() -> None:
    report = hostile.Report("sessions", 0, round_trips=1)
    faults = hostile.Faults()
    logging.getLogger("warren").addHandler(faults)
    try:
        logging.getLogger("warren").error("login refused")
        assert faults.seen == []
        logging.getLogger("warren").error("connection failed\nTraceback")
    finally:
        logging.getLogger("warren").removeHandler(faults)
    report.faults = faults.seen
    assert not report.is_well()
