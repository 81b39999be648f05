"""`make flame`: where the time of a compiled broker goes under load, as docs/images/flame.svg.

py-spy sees C frames too. Those of the interpreter and of the event loop's insides say nothing, so only the broker's own
functions stay, with the system call or library function at the end of each stack.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter
from html import escape
from pathlib import Path
from typing import Final

import click

from bench import brokers
from bench.run import ROOT, SCRATCH
from warren.errors import WarrenError

PICTURE: Final = ROOT / "docs" / "images" / "flame.svg"
LOADS: Final = {
    "throughput": ("throughput", "--size", "1024", "--ack-every", "10", "--prefetch", "100", "--in-flight", "5000"),
    "confirms": ("confirms", "--persistent"),
}
SECONDS: Final = 6
# The load is under way by then.
HEAD_START: Final = 2.0
SAMPLES_A_SECOND: Final = 500

# A compiled function: CPyDef_ and its module, class and name with three underscores between them.
_COMPILED: Final = re.compile(r"CPy(?:Def|Gen)_(\w+) \(")
_OWN: Final = re.compile(r"(\S+) \(warren/(server|store|broker|amqp)/(\w+)\.py")
_IDLE: Final = ("_worker (", "epoll_pwait (", "SimpleQueue_get")
_LAST: Final = {"write": "write(2)", "read": "read(2)", "fdatasync": "fdatasync(2)", "pread64": "pread(2)"}

WIDTH: Final = 1200
ROW: Final = 18
# Narrower than this is not drawn.
LEAST: Final = 0.5
# By the first part of the name; compiled modules of the broker often leave it out.
COLORS: Final = {"amqp": "#e9c46a", "store": "#8ab17d", "lane": "#8ab17d", "log": "#8ab17d", "server": "#a8b5c8"}
BROKER: Final = "#f4a261"
OUTSIDE: Final = "#d9d4cc"

Stack = tuple[str, ...]


def record(load: str) -> str:
    """Stacks of the broker under load, as py-spy writes them: frames with ; between, and their count."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    raw = SCRATCH / "flame.txt"
    with brokers.warren().start(SCRATCH) as broker:
        perf = [sys.executable, "-m", "warren", "perf", *LOADS[load], "--uri", broker.uri]
        loading = subprocess.Popen(
            [*perf, "--seconds", str(SECONDS + 2 * HEAD_START)], stdout=subprocess.DEVNULL, cwd=SCRATCH
        )
        time.sleep(HEAD_START)
        spy = [str(Path(sys.executable).with_name("py-spy")), "record", "--native", "--pid", str(broker.pids[0])]
        spy += ["--rate", str(SAMPLES_A_SECOND), "--duration", str(SECONDS), "--format", "raw", "--output", str(raw)]
        subprocess.run(spy, check=True, capture_output=True)
        if loading.wait():
            raise WarrenError("the load failed, so this is not what the broker does under it")
    return raw.read_text()


def collapse(raw: str) -> Counter[Stack]:
    stacks: Counter[Stack] = Counter()
    for line in raw.splitlines():
        frames, _, count = line.rpartition(" ")
        if any(idle in frames for idle in _IDLE):
            continue
        stack = own_frames(frames.split(";"))
        if stack:
            stacks[stack] += int(count)
    return stacks


def own_frames(frames: list[str]) -> Stack:
    named = [name for frame in frames if (name := name_of(frame))]
    # A function and its wrapper for Python callers have one name.
    stack = [name for place, name in enumerate(named) if place == 0 or named[place - 1] != name]
    last = frames[-1].split(" ")[0]
    if last in _LAST:
        stack.append(_LAST[last])
    return tuple(stack) if stack else (("event loop",) if "uv_run" in ";".join(frames) else ())


def name_of(frame: str) -> str | None:
    if compiled := _COMPILED.match(frame):
        return re.sub(r"_{3,4}", ".", compiled[1])
    if own := _OWN.match(frame):
        return f"{own[2]}.{own[3]}.{own[1]}"
    return None


def draw(stacks: Counter[Stack]) -> str:
    total = sum(stacks.values())
    boxes: list[str] = []
    depth = _boxes(sorted(stacks.items()), 0, 0.0, WIDTH / total, total, boxes)
    height = (depth + 1) * ROW
    # The root is at the bottom.
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
    return (
        head
        + f'font-family="monospace" font-size="11"><g transform="translate(0 {height - ROW})">'
        + "".join(boxes)
        + "</g></svg>\n"
    )


def _boxes(stacks: list[tuple[Stack, int]], level: int, left: float, scale: float, total: int, boxes: list[str]) -> int:
    """The boxes of one level and all above it; gives the highest level."""
    highest = level
    names: dict[str, list[tuple[Stack, int]]] = {}
    for stack, count in stacks:
        if len(stack) > level:
            names.setdefault(stack[level], []).append((stack, count))
    for name, inside in names.items():
        count = sum(each for _, each in inside)
        width = count * scale
        if width >= LEAST:
            boxes.append(_box(name, level, left, width, 100 * count / total))
            highest = max(highest, _boxes(inside, level + 1, left, scale, total, boxes))
        left += width
    return highest


def _box(name: str, level: int, left: float, width: float, percent: float) -> str:
    color = COLORS.get(name.split(".")[0], BROKER) if "." in name else OUTSIDE
    place = f'x="{left:.1f}" y="{-level * ROW}" width="{width:.1f}" height="{ROW - 1}"'
    title = f"<title>{escape(name)}: {percent:.1f} %</title>"
    room = int(width / 6.7)
    short = ".".join(name.split(".")[-2:]) if len(name) > room else name
    text = short[:room] if room >= 4 else ""
    label = f'<text x="{left + 2:.1f}" y="{-level * ROW + 13}">{escape(text)}</text>' if text else ""
    return f'<g>{title}<rect {place} fill="{color}" rx="2"/>{label}</g>'


@click.command()
@click.option("--load", type=click.Choice(list(LOADS)), default="throughput", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=PICTURE, show_default=True)
def main(load: str, out: Path) -> None:
    stacks = collapse(record(load))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(draw(stacks))
    total = sum(stacks.values())
    ends: Counter[str] = Counter()
    for stack, count in stacks.items():
        ends[stack[-1]] += count
    for name, count in ends.most_common(25):
        click.echo(f"{100 * count / total:5.1f} %  {name}")


if __name__ == "__main__":
    main()
