"""`warren store check` and `warren store dump`: what is in a log, and whether it is whole, without touching it."""

from __future__ import annotations

import json
from pathlib import Path

import pika
import pytest

from tests.cli.serving import run_warren
from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import StoredWorld
from warren import Broker


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder that a broker left, with a message acked and one still there."""
    with (
        Broker(data_dir=str(tmp_path / "data")) as broker,
        pika.BlockingConnection(pika.URLParameters(broker.url)) as connection,
    ):
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True)
        for body in (b"one tea", b"\xff\x00"):
            channel.basic_publish("", "orders", body, pika.BasicProperties(delivery_mode=2))
        channel.basic_get("orders", auto_ack=True)
    return tmp_path / "data"


def simulated(tmp_path: Path) -> Path:
    """Many segments with indexes, in which several queues have something."""
    world = StoredWorld(SimulatedDisk())
    world.declare("first")
    world.declare("second", max_priority=2)
    for number in range(40):
        world.publish(f"m{number}" + "." * 100, "first", "second", priority=number % 3)
        world.sync()
        world.chore()
    world.store.close()
    for name, data in world.disk.files().items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_check_counts_what_each_queue_has(folder: Path) -> None:
    result = run_warren("store", "check", str(folder))
    assert (result.returncode, result.stderr) == (0, "")
    assert "orders" in result.stdout
    assert result.stdout.endswith("no damage\n")
    report = json.loads(run_warren("store", "check", str(folder), "--json").stdout)
    assert report["queues"] == [{"vhost": "/", "queue": "orders", "level": 0, "messages": 1, "bytes": 2}]
    assert report["damage"] == []


def test_dump_shows_every_record_in_turn(folder: Path) -> None:
    lines = run_warren("store", "dump", str(folder / "messages"), "--json").stdout.splitlines()
    records = [json.loads(line) for line in lines]
    messages = [record for record in records if record["kind"] == "message"]
    assert messages[0]["body"] == "one tea"
    assert messages[1]["body_base64"] == "/wA="
    assert messages[0]["keys"] == ["orders"]
    assert {"message", "settled", "lane opened", "synced"} <= {record["kind"] for record in records}
    text = run_warren("store", "dump", str(folder)).stdout
    assert "body(7)='one tea'" in text
    assert len(text.splitlines()) == len(lines)


def test_check_says_what_is_damaged_and_changes_nothing(tmp_path: Path) -> None:
    folder = simulated(tmp_path)
    log = folder / "000000000002.log"
    data = bytearray(log.read_bytes())
    at = data.index(b"m1")
    data[at] ^= 1
    log.write_bytes(data)
    before = contents(folder)
    result = run_warren("store", "check", str(folder))
    assert (result.returncode, result.stderr) == (1, "")
    assert "damage: 000000000002.log is damaged from byte" in result.stdout
    assert "queue 'first' in vhost '/' loses message" in result.stdout
    assert "queue 'second' in vhost '/' loses message" in result.stdout
    assert contents(folder) == before


@pytest.mark.parametrize("name", ["000000000001.index", "000000000001.log"])
def test_check_misses_a_file_that_is_cut_or_gone(tmp_path: Path, name: str) -> None:
    folder = simulated(tmp_path)
    path = folder / name
    path.write_bytes(path.read_bytes()[:-5])
    assert f"{name} is damaged" in run_warren("store", "check", str(folder)).stdout
    if name.endswith(".log"):
        path.unlink()
        result = run_warren("store", "check", str(folder))
        assert result.returncode == 1
        assert "the file of segment 1 is missing" in result.stdout


@pytest.mark.parametrize("command", ["check", "dump"])
def test_a_folder_without_a_log_is_an_error_of_one_line(tmp_path: Path, command: str) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        result = run_warren("store", command, str(folder))
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr.startswith("error: there is no ")
        assert result.stderr.count("\n") == 1


def with_streams(tmp_path: Path) -> Path:
    """Several files of a stream, most of them with an index."""
    world = StoredWorld(SimulatedDisk())
    world.declare("orders", queue_type="stream", stream_max_segment_size_bytes=1000)
    for number in range(20):
        world.publish(f"m{number}" + "." * 100, "orders")
        world.sync()
        world.chore()
    world.store.close()
    for name, data in world.disk.files().items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def test_check_tells_what_streams_hold(tmp_path: Path) -> None:
    folder = with_streams(tmp_path)
    before = contents(folder)
    result = run_warren("store", "check", str(folder))
    assert (result.returncode, result.stderr) == (0, "")
    assert "0-19" in result.stdout
    (report,) = json.loads(run_warren("store", "check", str(folder), "--json").stdout)["streams"]
    assert (report["vhost"], report["stream"], report["messages"], report["next_offset"]) == ("/", "orders", 20, 20)
    assert contents(folder) == before


@pytest.mark.parametrize("which", [0, -1])
def test_check_finds_damage_in_a_stream(tmp_path: Path, which: int) -> None:
    folder = with_streams(tmp_path)
    path = sorted(folder.glob("*.stream"))[which]
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    result = run_warren("store", "check", str(folder))
    assert result.returncode == 1
    assert f"{path.name} is damaged from byte" in result.stdout


def test_dump_writes_the_records_of_a_stream(tmp_path: Path) -> None:
    folder = with_streams(tmp_path)
    lines = [json.loads(line) for line in run_warren("store", "dump", str(folder), "--json").stdout.splitlines()]
    messages = [line for line in lines if line["kind"] == "stream message"]
    assert [line["stream_offset"] for line in messages] == list(range(20))
    assert (messages[0]["stream"], messages[0]["exchange"], messages[0]["keys"]) == ("orders", "amq.fanout", ["key"])
    assert messages[0]["body"].startswith("m0.")
