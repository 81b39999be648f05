"""The format works in Spark's own declarative pipelines: the example is run by their own command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.spark.broker_under_test import BrokerUnderTest
from warren.spark.spark_session import SETTINGS, prepare_environment

EXAMPLE = Path(__file__).parents[3] / "examples" / "declarative"
ADDRESS = "amqp://guest:guest@127.0.0.1:5672/%2F"


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_large_orders_go_from_a_stream_to_a_queue(
    node: BrokerUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.declare("orders", **{"x-queue-type": "stream"})
    node.declare("large-orders")
    node.publish("orders", [json.dumps({"id": number, "amount": number * 20.0}).encode() for number in range(10)])
    shutil.copytree(EXAMPLE, tmp_path / "example")
    spec = tmp_path / "example" / "spark-pipeline.yml"
    text = spec.read_text()
    assert ADDRESS in text
    spec.write_text(text.replace(ADDRESS, node.uri).replace("/tmp/warren-declarative", str(tmp_path / "storage")))
    monkeypatch.setenv("SPARK_HOME", str(Path(pyspark.__file__).parent))
    prepare_environment()
    command = [str(Path(sys.executable).with_name("spark-pipelines")), "run", "--spec", str(spec)]
    quick = {**SETTINGS, "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    quick |= {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    run = subprocess.run(
        [*command, *(word for name, value in quick.items() for word in ("--conf", f"{name}={value}"))],
        cwd=spec.parent,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert sorted(json.loads(body)["id"] for _, _, body in node.get_all("large-orders")) == [6, 7, 8, 9]
