"""The commands in docs/spark-cluster.md have no option that Spark's own command does not know."""

from __future__ import annotations

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from warren.spark.java import require_java

pytestmark = pytest.mark.spark
PAGE = Path(__file__).parents[2] / "docs" / "spark-cluster.md"


def test_every_option_is_one_of_spark_submits() -> None:
    found = find_spec("pyspark")
    assert found is not None and found.origin is not None
    submit = Path(found.origin).parent / "bin" / "spark-submit"
    done = subprocess.run(
        [submit, "--help"], env={"JAVA_HOME": str(require_java().home), "PATH": "/usr/bin:/bin"}, capture_output=True
    )
    known = set(re.findall(r"--[a-z-]+", (done.stdout + done.stderr).decode()))
    command = r"^\$ (?:spark-submit|\S+start-connect-server\.sh)(?:.*\\\n)*.*$"
    blocks = re.findall(command, PAGE.read_text(), re.MULTILINE)
    assert len(blocks) == 5
    used = {option for block in blocks for option in re.findall(r"\s(--[a-z-]+)", block)}
    assert {"--master", "--archives", "--conf"} <= used
    assert used <= known
