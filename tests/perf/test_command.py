"""`warren perf`: figures for people and for scripts, and one line for every mistake."""

from __future__ import annotations

import json
import socket

import pytest

from tests.cli.serving import run_warren
from warren import Broker


def refusal(*arguments: str) -> str:
    result = run_warren("perf", *arguments)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("error: ")
    return result.stderr.removeprefix("error: ").rstrip()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["throughput", "--size", "-1"], "--size"),
        (["throughput", "--seconds", "0"], "--seconds"),
        (["throughput", "--uri", "http://127.0.0.1"], "is not an address like amqp://"),
        (["throughput", "--uri", "amqp://127.0.0.1:port"], "is not an address like amqp://"),
        (["throughput", "--pid", "4194305"], "there is no process 4194305"),
        (["throughput", "--ack-every", "10", "--prefetch", "5"], "never happens"),
        (["confirms", "--window", "many"], "--window"),
        (["latency", "--size", "4"], "no room for a time stamp"),
        (["marathon"], "marathon"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], reason: str) -> None:
    assert reason in refusal(*arguments)


@pytest.mark.parametrize("workload", ["throughput", "confirms", "backlog", "churn", "idle", "get"])
def test_a_broker_that_is_not_there_is_one_line(workload: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert f"no broker at 127.0.0.1:{port}" in refusal(workload, "--uri", f"amqp://127.0.0.1:{port}")


def test_a_login_that_is_refused_is_one_line() -> None:
    with Broker() as broker:
        assert "403 ACCESS_REFUSED" in refusal("throughput", "--uri", broker.url_of("guest", "wrong"))


def test_scripts_get_one_line_of_json() -> None:
    with Broker() as broker:
        result = run_warren("perf", "confirms", "--uri", broker.url, "--messages", "500", "--window", "10", "--json")
    assert (result.returncode, result.stderr, result.stdout.count("\n")) == (0, "", 1)
    found = json.loads(result.stdout)
    assert (found["workload"], found["published"], found["confirmed"]) == ("confirms", 500, 500)
    assert found["settings"]["window"] == 10


def test_people_get_a_table() -> None:
    with Broker() as broker:
        result = run_warren("perf", "throughput", "--uri", broker.url, "--messages", "500")
    assert result.returncode == 0
    assert "consumed a second" in result.stdout
