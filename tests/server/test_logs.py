"""Lines of the log: the short way to standard error and the long one by records say the same."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from warren.server.logs import LINES, LogFormatter, StandardError, record_of, tell

log = logging.getLogger("warren.test_logs")
TEXTS = ["plain", "per cent %s %d", "two\nlines", "\x1b[2J and \x7f", "ümläut ☃", ""]


@contextmanager
def written() -> Iterator[io.StringIO]:
    """What the only handler of the process writes. No fixture: pytest puts handlers of its own around each test."""
    root, stream = logging.getLogger(), io.StringIO()
    handlers, level = root.handlers[:], root.level
    only = StandardError(stream)
    only.setFormatter(LogFormatter(LINES))
    root.handlers[:] = [only]
    root.setLevel("INFO")
    try:
        yield stream
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


class Listening(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(record.getMessage())


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("created", [0.0, 1_700_000_000.0, 1_700_000_000.9996, 1_700_000_001.25])
def test_a_line_is_what_its_record_would_be(text: str, created: float) -> None:
    formatter = LogFormatter(LINES)
    record = record_of(log, logging.WARNING, text)
    record.created = created
    assert formatter.line(created, "WARNING", log.name, text) == formatter.format(record)


def test_what_is_told_is_written_at_once_and_what_is_below_the_level_is_not() -> None:
    with written() as stream:
        tell(log, logging.DEBUG, "nobody asked")
        tell(log, logging.INFO, "a line")
    assert stream.getvalue().endswith(" INFO warren.test_logs: a line\n")
    assert stream.getvalue().count("\n") == 1


def test_whoever_else_listens_hears_of_it() -> None:
    beside, own = Listening(), Listening()
    with written() as stream:
        logging.getLogger().addHandler(beside)
        tell(log, logging.INFO, "for two")
        logging.getLogger().removeHandler(beside)
        log.addHandler(own)
        try:
            tell(log, logging.INFO, "for this logger")
        finally:
            log.removeHandler(own)
    assert (beside.heard, own.heard) == (["for two"], ["for this logger"])
    assert [line.partition(": ")[2] for line in stream.getvalue().splitlines()] == ["for two", "for this logger"]


def test_a_stream_that_cannot_be_written_stops_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError("no space left on device")

    with written():
        [handler] = logging.getLogger().handlers
        assert isinstance(handler, StandardError)
        handler.setStream(Broken())
        tell(log, logging.INFO, "lost")
    assert "no space left on device" in capsys.readouterr().err
