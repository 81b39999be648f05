"""The table of settings in docs/queue-options.md is that of the broker, row for row."""

from __future__ import annotations

from pathlib import Path

from warren.broker.rules.queue_settings import QUEUE_TYPES, SETTINGS, Setting

PAGE = Path(__file__).parents[2] / "docs" / "queue-options.md"
HEAD = "| argument | in a policy | values | queues | operator's policy | changes in place |"


def as_row(setting: Setting) -> str:
    argument = f"`{setting.argument}`" if setting.is_argument else ""
    key = f"`{setting.name}`" if setting.refusal else ""
    queues = "all" if setting.types == QUEUE_TYPES else ", ".join(setting.types)
    changes = ("no" if setting.fixed else "yes") if setting.is_argument else ""
    return f"| {argument} | {key} | {setting.kind.text()} | {queues} | {setting.operator} | {changes} |"


def test_the_page_lists_every_setting_as_the_broker_knows_it() -> None:
    lines = PAGE.read_text().splitlines()
    start = lines.index(HEAD)
    listed = lines[start + 2 :]
    listed = listed[: next((at for at, line in enumerate(listed) if not line.startswith("|")), len(listed))]
    assert listed == [as_row(setting) for setting in SETTINGS.values()]
