"""Where the log of `warren serve` goes: lines or JSON, to standard error or to a file that is rotated."""

from __future__ import annotations

import json
import logging
import sys
import time
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from typing import Final, TextIO

from warren.config import Config
from warren.errors import WarrenError

LINES: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# A line that goes on is indented, as those of a traceback have to be seen.
_HARMLESS: Final = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160), 0x2028, 0x2029) if chr(code) not in "\t\n"
} | {ord("\n"): "\n    "}


class Log:
    """The one handler of the process. Opened again, it is a new file of the same name, or another place."""

    def __init__(self) -> None:
        self._handler: logging.Handler | None = None

    def open(self, config: Config) -> None:
        # Whatever no line shows is not looked up for each of them: two lines are part of every connection.
        logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
        handler = _handler_of(config)
        handler.setFormatter(_JsonLines() if config.log_format == "json" else LogFormatter(LINES))
        root = logging.getLogger()
        root.addHandler(handler)
        root.setLevel(config.log_level.upper())
        previous, self._handler = self._handler, handler
        if previous is not None:
            root.removeHandler(previous)
            previous.close()


def _handler_of(config: Config) -> logging.Handler:
    if not config.log_file:
        return StandardError(sys.stderr)
    try:
        return RotatingFileHandler(
            config.log_file, maxBytes=config.log_file_bytes, backupCount=config.log_file_count, encoding="utf-8"
        )
    except OSError as error:
        raise WarrenError(f"cannot write log_file {config.log_file}: {error.strerror}") from error


class LogFormatter(logging.Formatter):
    """Names that clients choose are logged: none may begin a line that looks like ours, or move the cursor."""

    def __init__(self, style: str) -> None:
        super().__init__(style)
        self._second = -1
        self._shown = ""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - logging's name
        return self._time(record.created)

    def format(self, record: logging.LogRecord) -> str:
        return _harmless(super().format(record))

    def line(self, created: float, level: str, name: str, text: str) -> str:
        """The same of what needs no record."""
        return _harmless(f"{self._time(created)} {level} {name}: {text}")

    def _time(self, created: float) -> str:
        second = int(created)
        if second != self._second:
            # Asking for the local time is most of what a line costs, and many come in one second.
            self._second, self._shown = second, time.strftime(self.default_time_format, time.localtime(second))
        return f"{self._shown},{int((created - second) * 1000):03d}"


def _harmless(line: str) -> str:
    return line if line.isprintable() else line.translate(_HARMLESS)


class StandardError(logging.StreamHandler[TextIO]):
    """Writes what is told as it is: a record of it, made and looked at on its way, would take five times as long."""

    def tell(self, logger: logging.Logger, level: int, text: str) -> None:
        if not isinstance(self.formatter, LogFormatter):
            logger.handle(record_of(logger, level, text))
            return
        line = self.formatter.line(time.time(), logging.getLevelName(level), logger.name, text)
        self.acquire()
        try:
            self.stream.write(line + self.terminator)
            if not self.stream.line_buffering:
                self.stream.flush()
        except Exception:  # noqa: BLE001 - as any handler: what cannot be logged harms nobody
            self.handleError(record_of(logger, level, text))
        finally:
            self.release()


def tell(logger: logging.Logger, level: int, text: str) -> None:
    """As logger.log, which looks for the line of code that called it: no line of the log shows that."""
    if not logger.isEnabledFor(level):
        return
    handlers = logging.root.handlers
    # Whoever has set up another way, or one more, gets records.
    if len(handlers) == 1 and isinstance(only := handlers[0], StandardError) and not logger.handlers:
        only.tell(logger, level, text)
    else:
        logger.handle(record_of(logger, level, text))


def record_of(logger: logging.Logger, level: int, text: str) -> logging.LogRecord:
    return logging.LogRecord(logger.name, level, "", 0, text, None, None)


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        facts = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            facts["exception"] = self.formatException(record.exc_info)
        return json.dumps(facts, ensure_ascii=False)
