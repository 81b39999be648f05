"""A campaign that cannot run here says so, and has not failed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("campaign", ["syscalls", "power_cuts"])
def test_a_campaign_without_its_tools_is_skipped_in_one_way(campaign: str, tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    result = subprocess.run(
        [sys.executable, "-m", f"tests.faults.{campaign}", "--json", str(told)],
        env={**os.environ, "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "no gcc" in json.loads(result.stdout)["skipped"]
    assert json.loads(told.read_text()) == json.loads(result.stdout)
