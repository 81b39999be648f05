"""Every mistake that a pipeline's file can hold is told with its line and a reason, before Spark starts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.serving import run_warren
from warren.errors import WarrenError
from warren.spark.pipelines.read_file import PipelineMistakes, load, loads

RIGHT = """\
pipeline: orders
sources:
  orders:
    stream: orders
    schema: id BIGINT NOT NULL, customer STRING, amount DOUBLE, at TIMESTAMP
    watermark: {column: at, delay: 10 seconds}
  customers:
    parquet: customers
views:
  enriched: |
    SELECT o.*, c.country
    FROM orders o JOIN customers c ON o.customer = c.id
  totals: SELECT country, sum(amount) AS total FROM enriched GROUP BY country
sinks:
  publish:
    from: totals
    exchange: totals
    mode: update
  keep:
    from: orders
    parquet: archive
dead-letters:
  stream: orders.dead
"""


def mistakes_in(text: str) -> list[str]:
    try:
        loads(text, "f.yaml", Path("/nowhere"), {"SET": "yes"})
    except PipelineMistakes as found:
        return [line.removeprefix("f.yaml:") for line in found.lines]
    return []


def test_the_file_that_the_wrong_ones_are_made_from_is_right() -> None:
    assert mistakes_in(RIGHT) == []


WRONG = Path(__file__).with_name("wrong_files.txt").read_text().removeprefix("===\n").split("===\n")


@pytest.mark.parametrize(
    "case", WRONG, ids=lambda case: case.partition("--- becomes\n")[2].strip().splitlines()[0][:40]
)
def test_a_wrong_file_is_refused_with_the_line_and_the_reason(case: str) -> None:
    old, _, rest = case.partition("\n--- becomes\n")
    new, _, expected = rest.partition("\n--- which is refused with\n")
    if old == "(all)":
        old = RIGHT
    assert old in RIGHT
    assert mistakes_in(RIGHT.replace(old, new, 1)) == expected.splitlines()


def test_there_are_as_many_wrong_files_as_were_promised() -> None:
    assert len(WRONG) >= 25


def test_a_file_that_cannot_be_read_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(WarrenError, match=r"cannot read .*missing.yaml: No such file or directory"):
        load(tmp_path / "missing.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"pipeline: \xff\xfe")
    with pytest.raises(WarrenError, match=r"latin.yaml is not text in UTF-8"):
        load(tmp_path / "latin.yaml")


def test_variables_are_taken_from_the_environment_and_may_have_a_default() -> None:
    text = RIGHT.replace("parquet: archive", "parquet: ${PLACE}/${DAY:-today}")
    definition = loads(text, "f.yaml", Path("/base"), {"PLACE": "cold"})
    assert definition.sinks["keep"].place == "cold/today"


def test_the_command_prints_every_mistake_and_exits_with_1(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(RIGHT.replace("BIGINT", "BIGGINT").replace("mode: update", "mod: update"))
    run = run_warren("pipeline", "validate", str(file))
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.splitlines() == [
        f'{file}:5: source "orders": schema: the field "id" has the unknown type BIGGINT; did you mean BIGINT?',
        f'{file}:18: sink "publish": unknown key "mod"; did you mean "mode"?',
    ]
    as_json = run_warren("pipeline", "validate", "--json", str(file))
    assert json.loads(as_json.stdout)["mistakes"] == run.stderr.splitlines()


def test_the_command_says_what_a_right_file_holds(tmp_path: Path) -> None:
    file = tmp_path / "right.yaml"
    file.write_text(RIGHT)
    run = run_warren("pipeline", "validate", str(file))
    assert (run.returncode, run.stdout) == (0, f"{file} is a pipeline: 2 sources, 2 views, 2 sinks\n")


def test_checking_a_file_loads_no_spark(tmp_path: Path) -> None:
    code = "import sys, warren.cli.pipeline; sys.exit('pyspark' in sys.modules or 'pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
