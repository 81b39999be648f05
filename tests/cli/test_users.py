"""Commands that work on a running broker: users and definitions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from tests.cli.serving import run_warren
from warren import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(http=True) as running:
        yield running


def url_of(broker: Broker, login: str = "guest:guest") -> str:
    return broker.http_url.replace("http://", f"http://{login}@")


def succeed(broker: Broker, *arguments: str) -> str:
    result = run_warren(*arguments, "--url", url_of(broker))
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def fail(*arguments: str) -> str:
    result = run_warren(*arguments)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_a_user_is_added_allowed_listed_and_deleted(broker: Broker) -> None:
    succeed(broker, "users", "add", "alice", "--password", "secret", "--tag", "monitoring")
    succeed(broker, "users", "set-permissions", "alice", "^mine", ".*", ".*")
    with pika.BlockingConnection(pika.URLParameters(broker.url_of("alice", "secret"))) as connection:
        connection.channel().queue_declare("mine")
    listed = json.loads(succeed(broker, "users", "list", "--json"))
    assert {"name": "alice", "tags": ["monitoring"]} in listed
    assert "alice" in succeed(broker, "users", "list")
    succeed(broker, "users", "delete", "alice")
    assert "alice" not in succeed(broker, "users", "list")


def test_what_was_exported_can_be_imported_elsewhere(broker: Broker, tmp_path: Path) -> None:
    path = str(tmp_path / "definitions.json")
    broker.call(lambda node: node.vhosts["/"].add_queue("exported", True, False, {}))
    succeed(broker, "export", path)
    with Broker(http=True) as other:
        succeed(other, "import", path)
        assert other.call(lambda node: "exported" in node.vhosts["/"].queues)


def test_an_export_goes_to_standard_output_by_default(broker: Broker) -> None:
    assert "queues" in json.loads(succeed(broker, "export"))
    assert "users" not in json.loads(succeed(broker, "export", "--vhost", "/"))


def test_a_broker_that_is_not_there_is_told_in_one_line() -> None:
    line = fail("users", "list", "--url", "http://127.0.0.1:1")
    assert line.startswith("error: no answer from 127.0.0.1:1: ")


def test_a_wrong_password_is_told_in_one_line(broker: Broker) -> None:
    place = broker.http_url.removeprefix("http://")
    assert fail("users", "list", "--url", url_of(broker, "guest:wrong")) == (
        f"error: the broker at {place} does not know user 'guest' with this password\n"
    )


def test_a_wrong_address_is_told_in_one_line() -> None:
    assert "is not an address like" in fail("users", "list", "--url", "localhost")


def test_a_broken_file_is_told_in_one_line(broker: Broker, tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text("{")
    assert "is not JSON" in fail("import", str(path), "--url", url_of(broker))
    assert "No such file" in fail("import", str(tmp_path / "none.json"), "--url", url_of(broker))
    path.write_text('{"global_parameters": [{"name": "n", "value": 1e999}]}')
    assert "is not JSON: 1e999 is no number of JSON" in fail("import", str(path), "--url", url_of(broker))
    path.write_text('{"queues": [{"name": "q", "vhost": "nowhere"}]}')
    assert "no vhost 'nowhere'" in fail("import", str(path), "--url", url_of(broker))
