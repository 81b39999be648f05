"""The commands for daily work, against a broker that runs: what they print, and that mistakes are one line."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from click.testing import CliRunner

from tests.cli.serving import PATIENCE, environment, run_warren
from warren import Broker
from warren.cli.main import COMMANDS, warren
from warren.core import describe_core
from warren.errors import WarrenError


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(http=True) as running:
        yield running


class Shell:
    def __init__(self, broker: Broker) -> None:
        self._environment = {"WARREN_URL": broker.http_url.replace("http://", "http://guest:guest@"), "COLUMNS": "200"}

    def run(self, *arguments: str, input: str | None = None) -> str:
        result = CliRunner().invoke(warren, arguments, input=input, env=self._environment)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.stdout

    def rows(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))


@pytest.fixture
def shell(broker: Broker) -> Iterator[Shell]:
    own = Shell(broker)
    yield own
    for queue in own.rows("queues", "list"):
        own.run("queues", "delete", queue["name"])


def test_messages_are_published_peeked_and_taken(shell: Shell) -> None:
    shell.run("declare", "queue", "q", "--argument", "x-max-length:=10")
    shell.run("publish", "hello", "--routing-key", "q", "--header", "kind=greeting", "--header", "size:=5")
    shell.run("publish", "again", "--routing-key", "q", "--property", "message_id=m2")
    (first, second) = shell.rows("peek", "q")
    assert (first["payload"], first["properties"]["headers"]) == ("hello", {"kind": "greeting", "size": 5})
    assert second["properties"]["message_id"] == "m2"
    assert [row["payload"] for row in shell.rows("peek", "q", "--header", "kind=greeting")] == ["hello"]
    assert [row["payload"] for row in shell.rows("peek", "q", "--body", "aga")] == ["again"]
    assert "hello" in shell.run("peek", "q")
    assert [row["payload"] for row in shell.rows("get", "q", "--requeue")] == ["hello"]
    assert [row["payload"] for row in shell.rows("get", "q", "--count", "5")] == ["hello", "again"]


def test_lines_of_a_file_are_messages_and_consume_prints_them(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("one\ntwo\nthree\n")
    shell.run("declare", "queue", "q")
    shell.run("publish", "--routing-key", "q", "--file", str(tmp_path / "lines"), "--lines")
    assert shell.run("consume", "q", "--count", "2", "--raw") == "one\ntwo\n"
    assert json.loads(shell.run("consume", "q", "--count", "1"))["payload"] == "three"


def test_a_body_comes_from_standard_input(shell: Shell) -> None:
    shell.run("declare", "queue", "q")
    shell.run("publish", "--routing-key", "q", "--file", "-", input="piped")
    assert shell.rows("get", "q")[0]["payload"] == "piped"


def test_an_unrouted_message_is_an_error(shell: Shell) -> None:
    with pytest.raises(WarrenError, match="1 of 1 messages were not routed"):
        shell.run("publish", "m", "--routing-key", "nowhere")


def test_topology_is_declared_listed_and_deleted(shell: Shell) -> None:
    shell.run("declare", "exchange", "x", "--type", "topic")
    shell.run("declare", "queue", "q")
    shell.run("declare", "binding", "x", "q", "--routing-key", "a.#")
    assert "x" in [row["name"] for row in shell.rows("exchanges", "list")]
    (found,) = [row for row in shell.rows("bindings", "list") if row["source"] == "x"]
    assert found["routing_key"] == "a.#"
    shell.run("bindings", "delete", "x", "q", found["properties_key"])
    assert [row for row in shell.rows("bindings", "list") if row["source"] == "x"] == []
    shell.run("exchanges", "delete", "x")


def test_queues_are_listed_changed_and_purged(shell: Shell) -> None:
    shell.run("queues", "declare", "q", "--type", "quorum")
    shell.run("publish", "m", "--routing-key", "q", "--count", "3")
    assert [(row["name"], row["messages"]) for row in shell.rows("queues", "list")] == [("q", 3)]
    changed = shell.rows("queues", "change", "q", "--argument", "x-max-length:=2")
    assert [(row["argument"], row["wanted"]) for row in changed] == [("x-max-length", 2)]
    assert shell.rows("queues", "show", "q")["messages"] == 2
    with pytest.raises(WarrenError, match="x-queue-type cannot change from 'quorum' to 'stream'"):
        shell.run("queues", "change", "q", "--argument", "x-queue-type=stream")
    shell.run("queues", "change", "q", "--unset", "x-max-length")
    shell.run("queues", "purge", "q")
    assert shell.rows("queues", "show", "q")["messages"] == 0


def test_messages_move_and_one_is_deleted(shell: Shell) -> None:
    shell.run("declare", "queue", "q")
    shell.run("declare", "queue", "other")
    shell.run("publish", "m", "--routing-key", "q", "--count", "30")
    assert shell.run("queues", "move", "q", "other", "--count", "10") == "10 moved\n"
    assert shell.run("queues", "move", "q", "other") == "20 moved\n"
    sequence = shell.rows("peek", "other")[0]["sequence"]
    shell.run("queues", "delete-message", "other", str(sequence))
    assert shell.rows("queues", "show", "other")["messages"] == 29
    with pytest.raises(WarrenError, match="say where to"):
        shell.run("queues", "move", "q")


def test_policies_vhosts_and_permissions(shell: Shell) -> None:
    shell.run("vhosts", "add", "shop", "--description", "a shop")
    assert [row["description"] for row in shell.rows("vhosts", "list") if row["name"] == "shop"] == ["a shop"]
    shell.run("policies", "set", "short", "^q", '{"max-length": 5}', "--vhost", "shop", "--apply-to", "queues")
    assert shell.rows("policies", "list", "--vhost", "shop")[0]["definition"] == {"max-length": 5}
    shell.run("policies", "delete", "short", "--vhost", "shop")
    shell.run("vhosts", "firehose", "shop")
    assert [row["tracing"] for row in shell.rows("vhosts", "list") if row["name"] == "shop"] == [True]
    shell.run("vhosts", "firehose", "shop", "--off")
    shell.run("users", "clear-permissions", "guest", "--vhost", "shop")
    assert [row["vhost"] for row in shell.rows("users", "permissions", "guest")] == ["/"]
    shell.run("vhosts", "delete", "shop")


def test_clients_are_listed_and_a_connection_is_closed(shell: Shell, broker: Broker) -> None:
    client = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = client.channel()
    channel.queue_declare("q")
    channel.basic_consume("q", lambda *_: None, consumer_tag="tag")
    (connection,) = shell.rows("connections", "list")
    assert "tag" in shell.run("consumers")
    assert shell.rows("channels")[0]["consumer_count"] == 1
    shell.run("connections", "close", connection["name"], "--reason", "tea time")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="tea time"):
        client.process_data_events(5)


def test_status_tells_alarms_and_fails_while_one_is_on(shell: Shell, broker: Broker) -> None:
    shown = shell.rows("status")
    assert shown["alarms"] == []
    assert shown["core"] == describe_core()
    broker.call(lambda node: node.set_alarm("memory", True))
    with pytest.raises(WarrenError, match="memory alarm: publishers are blocked"):
        shell.run("status")
    broker.call(lambda node: node.set_alarm("memory", False))


def test_scheduled_messages_are_listed_and_cancelled(shell: Shell) -> None:
    shell.run("declare", "exchange", "later", "--type", "x-delayed-message", "--argument", "x-delayed-type=fanout")
    shell.run("publish", "m", "--exchange", "later", "--routing-key", "k", "--header", "x-delay:=60000")
    assert shell.rows("scheduled", "list") == [{"name": "later", "vhost": "/", "messages": 1}]
    (row,) = shell.rows("scheduled", "list", "later")
    shell.run("scheduled", "cancel", "later", str(row["sequence"]))
    assert shell.rows("scheduled", "list", "later") == []
    shell.run("exchanges", "delete", "later")


def test_a_trace_waits_for_the_next_publish(shell: Shell, broker: Broker) -> None:
    shell.run("declare", "queue", "q")
    client = pika.BlockingConnection(pika.URLParameters(broker.url))
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.extend(shell.rows("trace", "--exchange", "", "--timeout", "20")))
    waiting.start()
    # Not with a second command: two in one process would share the standard output.
    channel = client.channel()
    while waiting.is_alive():
        channel.basic_publish("", "q", b"m")
        client.process_data_events(0.05)
    client.close()
    assert found[0]["queues"] == ["q"]
    assert "'q' took it as number" in shell.run("trace", "--list")


def test_a_dry_run_is_drawn_as_a_tree(shell: Shell) -> None:
    shell.run("declare", "queue", "[red]q")
    shell.run("declare", "binding", "amq.headers", "[red]q", "--argument", "x-match=all", "--argument", "a=b")
    drawn = shell.run("trace", "--dry-run", "--exchange", "amq.headers", "--routing-key", "k", "--header", "a=b")
    assert "amq.headers key 'k' would be routed" in drawn
    assert "+ queue '[red]q': x-match=all of a=b: met" in drawn
    missed = shell.run("trace", "--dry-run", "--exchange", "amq.headers", "--header", "a=c")
    assert "- queue '[red]q': x-match=all of a=b: not met" in missed


def test_a_trace_gives_up_in_time(shell: Shell) -> None:
    with pytest.raises(WarrenError, match="0 of 1 publishes came within"):
        shell.run("trace", "--timeout", "0.2", "--exchange", "amq.match")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("publish", "--routing-key", "q"), "give the message as BODY or with --file"),
        (("publish", "m", "--routing-key", "q", "--header", "x"), "x is not NAME=VALUE"),
        (("publish", "m", "--routing-key", "q", "--header", "x:=y"), "x:=y: y is not JSON"),
        (("publish", "--routing-key", "q", "--file", "/nothing/here"), "cannot read /nothing/here: No such file"),
        (("get", "missing"), "no queue 'missing' in vhost '/'"),
        (("queues", "delete", "missing"), "there is no queue 'missing' in virtual host '/'"),
        (("queues", "list", "--vhost", "none"), "there is no virtual host 'none'"),
        (("queues", "list", "--srot", "name"), "No such option '--srot'. (Did you mean one of: '--json', '--sort'"),
        (("quees", "list"), "No such command 'quees'. Did you mean 'queues'?"),
        (("policies", "set", "p", ".*", "{"), "{ is not JSON"),
        (("policies", "set", "p", ".*", '{"max-length": 1e999}'), "1e999 is no number of JSON"),
        (("queues", "declare", "q", "--argument", "x-max-length:=NaN"), "x-max-length:=NaN: NaN is not JSON"),
        (("connections", "close"), "say which: NAME or --user"),
        (("status", "--url", "http://127.0.0.1:1"), "no answer from 127.0.0.1:1"),
        (("nonsense",), "No such command 'nonsense'"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_one(broker: Broker, arguments: tuple[str, ...], said: str) -> None:
    result = run_warren(*arguments, WARREN_URL=broker.http_url.replace("http://", "http://guest:guest@"))
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert said in result.stderr


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_explains_itself(command: str) -> None:
    result = CliRunner().invoke(warren, [command, "--help"])
    assert result.exit_code == 0
    assert len(result.output.splitlines()) > 5


def test_a_shell_completes_commands_and_names(shell: Shell, broker: Broker) -> None:
    shell.run("declare", "queue", "orders")
    url = broker.http_url.replace("http://", "http://guest:guest@")
    for words, number, completed in (("warren pe", "1", "plain,peek"), ("warren peek or", "2", "plain,orders")):
        asked = run_warren(_WARREN_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=number, WARREN_URL=url)
        assert completed in asked.stdout


def test_a_column_that_is_not_there_is_told_what_was_meant(shell: Shell) -> None:
    shell.run("declare", "queue", "q")
    with pytest.raises(WarrenError, match="there is no column mesages; did you mean messages"):
        shell.run("queues", "list", "--sort", "mesages")


def test_options_that_were_called_otherwise_once_still_work(shell: Shell, broker: Broker) -> None:
    shell.run("declare", "queue", "q")
    shell.run("publish", "m", "--key", "q")
    assert shell.run("consume", "q", "--count", "1", "--raw", "--broker", broker.url).strip() == "m"
    assert "--key" not in shell.run("publish", "--help")


LONG = "a-name-of-a-queue-" + "that-goes-on-" * 12


def test_a_table_that_is_piped_is_as_wide_as_it_must_be(shell: Shell, broker: Broker) -> None:
    shell.run("declare", "queue", LONG)
    url = broker.http_url.replace("http://", "http://guest:guest@")
    lines = run_warren("queues", "list", "--url", url, COLUMNS="40").stdout.splitlines()
    row = next(line for line in lines if LONG in line)
    # Numbers stand below the end of their heading.
    assert lines[1].index("messages ") + len("messages") == row.index(" 0 ") + len(" 0")


def in_a_terminal(columns: int, *arguments: str, typed: str = "", **variables: str) -> tuple[int, str]:
    """Exit code and all that is shown."""
    try:
        primary, secondary = pty.openpty()
    except OSError as error:
        pytest.skip(f"no pseudo-terminal can be opened here: {error}")
    termios.tcsetwinsize(secondary, (40, columns))
    process = subprocess.Popen(
        [sys.executable, "-m", "warren", *arguments],
        stdin=secondary,
        stdout=secondary,
        stderr=secondary,
        env=environment(TERM="dumb", **variables),
    )
    os.close(secondary)
    os.write(primary, typed.encode())
    shown = b""
    with contextlib.suppress(OSError):
        while data := os.read(primary, 4096):
            shown += data
    os.close(primary)
    return process.wait(PATIENCE), shown.decode().replace("\r\n", "\n")


def test_in_a_narrow_terminal_every_field_has_a_line_and_nothing_is_cut(shell: Shell, broker: Broker) -> None:
    shell.run("declare", "queue", LONG)
    url = broker.http_url.replace("http://", "http://guest:guest@")
    code, shown = in_a_terminal(60, "queues", "list", WARREN_URL=url)
    assert code == 0
    assert LONG in shown.replace("\n", "")
    assert "messages: 0" in shown


def test_a_purge_asks_on_a_terminal(shell: Shell, broker: Broker) -> None:
    shell.run("declare", "queue", "q")
    shell.run("publish", "m", "--routing-key", "q")
    url = broker.http_url.replace("http://", "http://guest:guest@")
    code, shown = in_a_terminal(80, "queues", "purge", "q", typed="n\n", WARREN_URL=url)
    assert code != 0
    assert "Delete 1 messages of queue 'q' for good?" in shown
    assert len(shell.rows("peek", "q")) == 1
    assert in_a_terminal(80, "queues", "purge", "q", typed="y\n", WARREN_URL=url)[0] == 0
    assert shell.rows("peek", "q") == []
