"""`warren serve`: the ready line, signals, exit codes, and one clear line for every mistake."""

from __future__ import annotations

import re
import signal
import socket
from pathlib import Path

import pika
import pytest
from pika.exceptions import ConnectionClosedByBroker

from tests.cli.serving import Serving, run_warren
from warren.core import IS_COMPILED, describe_core

INTERCEPTOR = "warren.broker.session.interceptors.Interceptor"


def connect(serving: Serving) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(serving.amqp_url))


def refusal(*arguments: str, cwd: Path, **variables: str) -> str:
    """The one line that a start which cannot be prints."""
    result = run_warren("serve", *arguments, cwd=cwd, **variables)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("error: ")
    return result.stderr.removeprefix("error: ").rstrip()


def test_the_ready_line_says_where(tmp_path: Path) -> None:
    with Serving(tmp_path) as serving:
        assert re.fullmatch(r"warren ready amqp=127\.0\.0\.1:\d+ http=127\.0\.0\.1:\d+\n", serving.ready_line)
        with connect(serving) as connection:
            assert connection.is_open


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_tells_the_clients_and_ends_with_0(tmp_path: Path, number: signal.Signals) -> None:
    with Serving(tmp_path) as serving:
        connection = connect(serving)
        serving.process.send_signal(number)
        with pytest.raises(ConnectionClosedByBroker, match="320"):
            connection.process_data_events(20)
        assert serving.wait() == 0
        assert "Traceback" not in serving.errors


def test_a_client_that_does_not_answer_is_not_waited_for_for_long(tmp_path: Path) -> None:
    with Serving(tmp_path) as serving:
        connection = connect(serving)
        assert serving.stop() == 0
        with pytest.raises(ConnectionClosedByBroker, match="320"):
            connection.process_data_events(20)


def test_definitions_survive_a_restart(tmp_path: Path) -> None:
    with Serving(tmp_path) as serving, connect(serving) as connection:
        channel = connection.channel()
        channel.queue_declare("kept", durable=True)
        channel.queue_bind("kept", "amq.topic", "a.#")
    with Serving(tmp_path) as serving, connect(serving) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("amq.topic", "a.b", b"found", mandatory=True)
        assert channel.queue_declare("kept", passive=True).method.message_count == 1


def test_the_default_user_is_made_once(tmp_path: Path) -> None:
    with Serving(tmp_path) as serving:
        users = run_warren("users", "delete", "guest", "--url", serving.http_url)
        assert users.returncode == 0
    with Serving(tmp_path) as serving, pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(serving)


def test_a_definitions_file_is_imported_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "rabbit.json").write_text('{"queues": [{"name": "from file", "vhost": "/", "durable": true}]}')
    with Serving(tmp_path, "--definitions", "rabbit.json") as serving, connect(serving) as connection:
        connection.channel().queue_declare("from file", passive=True)


def test_options_come_from_the_file_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "warren.toml").write_text('cluster_name = "from the file"\n')
    with Serving(tmp_path) as serving, connect(serving) as connection:
        assert connection._impl.server_properties["cluster_name"] == "from the file"


def test_the_http_side_can_be_left_out(tmp_path: Path) -> None:
    with Serving(tmp_path, "--http-port", "-1") as serving:
        assert serving.http == "off"


def test_a_taken_port_is_told_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refusal("--amqp-port", str(port), "--http-port", "-1", cwd=tmp_path)
        assert line == f"cannot listen on 127.0.0.1:{port}: the port is in use"
        line = refusal("--amqp-port", "0", "--http-port", str(port), cwd=tmp_path)
        assert line == f"cannot listen on 127.0.0.1:{port}: the port is in use"


def test_a_data_folder_of_another_process_is_told_in_one_line(tmp_path: Path) -> None:
    with Serving(tmp_path, "--data-dir", "data") as serving:
        line = refusal("--data-dir", "data", "--amqp-port", "0", "--http-port", "-1", cwd=tmp_path)
        assert line == f"the data folder data is in use by process {serving.process.pid}"


def test_a_host_that_is_not_ours_is_told_in_one_line(tmp_path: Path) -> None:
    line = refusal("--host", "192.0.2.1", "--amqp-port", "0", cwd=tmp_path)
    assert line == "cannot listen on 192.0.2.1:0: cannot assign requested address"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--amqp-port", "many"], "--amqp-port must be a whole number, not 'many'"),
        (["--tls-cert", "no.pem"], "cannot load tls_cert no.pem and its key: [Errno 2] No such file or directory"),
        (["--interceptors", "nowhere"], "interceptors: 'nowhere' is not of the form package.module:Class"),
        (["--interceptors", "nowhere.at:All"], "interceptors: cannot load nowhere.at:All: No module named 'nowhere'"),
        (["--interceptors", "json:JSONDecoder"], f"interceptors: json:JSONDecoder is not a subclass of {INTERCEPTOR}"),
        (["--config", "no.toml"], "cannot read the configuration no.toml: No such file or directory"),
        (["--definitions", "no.json"], "cannot read no.json: No such file or directory"),
        (["--frobnicate"], "No such option '--frobnicate'."),
    ],
)
def test_a_mistake_is_told_in_one_line(tmp_path: Path, arguments: list[str], line: str) -> None:
    assert refusal("--amqp-port", "0", "--http-port", "-1", *arguments, cwd=tmp_path) == line


def test_a_wrong_variable_is_told_in_one_line(tmp_path: Path) -> None:
    assert refusal(cwd=tmp_path, WARREN_FLAVOUR="mint") == (
        "WARREN_FLAVOUR: there is no such option (see docs/configuration.md)"
    )


def test_help_names_every_option(tmp_path: Path) -> None:
    result = run_warren("serve", "--help", cwd=tmp_path)
    assert result.returncode == 0
    for flag in ("--config", "--data-dir", "--host", "--amqp-port", "--http-port", "--memory-high-watermark"):
        assert flag in result.stdout


def test_the_version_is_printed() -> None:
    result = run_warren("--version")
    assert re.fullmatch(r"warren \d+\.\d+\.\d+\ncore: .+\n", result.stdout)
    assert result.stdout.endswith(f"core: {describe_core()}\n")


def test_a_broker_whose_core_is_not_compiled_says_so_beside_the_ready_line(tmp_path: Path) -> None:
    with Serving(tmp_path) as serving:
        serving.stop()
        assert (" INFO warren: core: interpreted, about 5x slower: " in serving.errors) == (not IS_COMPILED)
        # Standard output is for the ready line alone, which scripts read.
        assert serving.more == ""


@pytest.mark.parametrize(
    ("path", "reason"),
    [("/nowhere", "no C compiler"), ("compilers", "run from its source|installed without")],
)
def test_the_reason_why_it_is_not_compiled_is_told(tmp_path: Path, path: str, reason: str) -> None:
    if IS_COMPILED:
        pytest.skip("the core under test is compiled")
    (tmp_path / "compilers").mkdir()
    (tmp_path / "compilers" / "cc").symlink_to("/bin/true")
    result = run_warren("--version", cwd=tmp_path, PATH=str(tmp_path / path))
    assert re.search(rf"core: interpreted, about 5x slower: ({reason})", result.stdout)


def test_a_name_that_a_client_chose_forges_no_line_of_the_log(tmp_path: Path) -> None:
    forged = "2026-01-01 00:00:00,000 INFO warren: all is well"
    user = f"x\n{forged}\r\x1b[2J"
    with Serving(tmp_path) as serving:
        credentials = pika.PlainCredentials(user, "wrong")
        host, port = serving.amqp.rsplit(":", 1)
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            pika.BlockingConnection(pika.ConnectionParameters(host, int(port), credentials=credentials))
        serving.stop()
    assert forged in serving.errors
    assert forged not in serving.errors.splitlines()
    assert not any(line.startswith(forged) for line in serving.errors.splitlines())
    assert "\x1b" not in serving.errors
    assert "\r" not in serving.errors
