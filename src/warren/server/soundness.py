"""Whether a node's files are whole, asked before it may lead: the others may have what is damaged here."""

from __future__ import annotations

from pathlib import Path

from warren.store.definitions_recovery import FoundDefinitions
from warren.store.inspect import ReadingDisk
from warren.store.log import LogStore
from warren.store.recovery import Survey
from warren.store.stream_recovery import StreamSurvey
from warren.store.streams import stream_files


def damage_in(folder: Path) -> list[str]:
    """As much of it as a start would find. Reading changes nothing."""
    if not folder.is_dir():
        return []
    disk = ReadingDisk(folder)
    try:
        names = disk.names()
        survey = Survey(disk)
        store = LogStore(disk)
        survey.fill(store)
        lines = list(store.log_lines)
        for incarnation, numbers in stream_files(names).items():
            lines += StreamSurvey(disk, incarnation, numbers, names).lines
        found = FoundDefinitions(disk).damage
        for segment in store.segments.values():
            store.files.close(segment)
    except OSError as error:
        return [str(error)]
    return found + [line for line in lines if "damaged" in line or "missing" in line or "lost" in line]
