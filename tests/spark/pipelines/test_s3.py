"""What reaches S3 without a jar, here served by moto: Delta tables that are kept up to date, and dead letters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pyarrow.dataset as dataset
import pytest
from deltalake import DeltaTable
from pyarrow import fs

from tests.rabbitmq_node import free_ports
from tests.spark.broker_under_test import BrokerUnderTest

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.timeout(300),
    pytest.mark.skipif(find_spec("moto") is None, reason="moto is not installed"),
]
SECRETS: Final = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
FILE: Final = """\
pipeline: far
broker: BROKER
sources:
  changes: {stream: STREAM, schema: "id BIGINT NOT NULL, name STRING, at BIGINT"}
sinks:
  names: {from: changes, delta: "s3://lake/names", mode: upsert, keys: [id], order-by: at}
dead-letters: {parquet: "s3://lake/misfits"}
"""
BACK: Final = """\
pipeline: back
broker: BROKER
sources:
  ids: {stream: IDS, schema: "id BIGINT", on-error: drop}
  names: {delta: "s3a://lake/names"}
views:
  named: SELECT ids.id, names.name FROM ids JOIN names ON ids.id = names.id
sinks:
  out: {from: named, queue: OUT}
"""


@pytest.fixture
def lake() -> Iterator[dict[str, str]]:
    """The variables by which everybody finds a bucket `lake`."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        make_bucket(f"http://127.0.0.1:{port}/lake")
        yield {**SECRETS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ALLOW_HTTP": "true"}
    finally:
        server.kill()
        server.wait()


def make_bucket(address: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(urllib.request.Request(address, method="PUT"), timeout=10).close()
            return
        except (urllib.error.URLError, ConnectionError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def run_once(folder: Path, text: str, variables: dict[str, str]) -> None:
    (folder / "far.yaml").write_text(text)
    command = [sys.executable, "-m", "warren", "pipeline", "run", "--once", "far.yaml"]
    done = subprocess.run(command, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_table_is_kept_up_to_date_and_misfits_are_put_aside_in_a_bucket_without_any_jar(
    node: BrokerUnderTest, tmp_path: Path, lake: dict[str, str]
) -> None:
    stream, ids, out = node.make(), node.make(), node.make("classic")
    changes = [{"id": number % 3, "name": f"n{number}", "at": number} for number in range(10)]
    node.publish(stream, [b"no change", *(json.dumps(each).encode() for each in changes)])
    text = FILE.replace("BROKER", node.uri).replace("STREAM", stream)
    run_once(tmp_path, text, lake)
    node.publish(stream, [b'{"id": 1, "name": "late", "at": 3}', b'{"id": 2, "name": "new", "at": 30}'])
    run_once(tmp_path, text, lake)
    endpoint = lake["AWS_ENDPOINT_URL"]
    rows = DeltaTable("s3://lake/names", storage_options=lake).to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["name"]) for row in rows) == [(0, "n9"), (1, "n7"), (2, "new")]
    store = fs.S3FileSystem(access_key="key", secret_key="secret", region="us-east-1", endpoint_override=endpoint)
    letters = dataset.dataset("lake/misfits", filesystem=store, format="parquet").to_table().to_pylist()
    assert [bytes(letter["body"]) for letter in letters] == [b"no change"]
    # And back, as a table to join with.
    node.publish(ids, [b'{"id": 2}'])
    run_once(tmp_path, BACK.replace("BROKER", node.uri).replace("IDS", ids).replace("OUT", out), lake)
    assert [json.loads(body) for _, _, body in node.get_all(out)] == [{"id": 2, "name": "new"}]
