"""`warren serve` while it runs: SIGHUP, and what the log tells of whom."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pika
import pytest
import trustme
from pika.exceptions import ConnectionClosedByBroker, ProbableAuthenticationError

from tests.cli.serving import PATIENCE, Serving, run_warren
from warren.client.session import Credentials, Session


def place_of(serving: Serving) -> tuple[str, int]:
    host, _, port = serving.amqp.rpartition(":")
    return host, int(port)


def connect(serving: Serving, password: str = "guest") -> pika.BlockingConnection:
    host, port = place_of(serving)
    login = pika.PlainCredentials("guest", password)
    return pika.BlockingConnection(pika.ConnectionParameters(host, port, credentials=login))


def wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def hang_up(serving: Serving, file: Path, says: str = "the configuration is reloaded") -> str:
    """Send SIGHUP; what the log has when it says so."""
    serving.process.send_signal(signal.SIGHUP)
    wait_for(lambda: file.exists() and says in file.read_text())
    return file.read_text()


def test_a_clean_life_leaves_no_warning_in_the_log(tmp_path: Path) -> None:
    with Serving(tmp_path) as serving, connect(serving) as connection:
        connection.channel().queue_declare("q", durable=True)
    with Serving(tmp_path) as serving:
        connection = connect(serving)
        assert serving.stop() == 0
        with pytest.raises(ConnectionClosedByBroker, match="320"):
            connection.process_data_events(20)
    lines = serving.errors.splitlines()
    assert [line for line in lines if " INFO " not in line] == []
    said = [line.partition("warren: ")[2] for line in lines]
    assert any(line.startswith("recovered 0 messages in 1 queues") for line in said)
    assert any(line.endswith("user 'guest' connected to vhost '/'") for line in said)
    assert said[-1] == "stopped"
    assert "stopping: SIGTERM" in said


def test_a_client_that_vanishes_is_told_from_one_that_closes(tmp_path: Path) -> None:
    with Serving(tmp_path, "--log-file", "log") as serving:
        log = tmp_path / "log"
        connect(serving).close()
        wait_for(lambda: "INFO warren: 127.0.0.1:" in log.read_text() and "user 'guest' is gone\n" in log.read_text())
        assert " WARNING " not in log.read_text()
        with socket.create_connection(place_of(serving)) as vanishing:
            session = Session(Credentials("guest", "guest"))
            vanishing.sendall(session.greet())
            while not session.is_open:
                session.feed(vanishing.recv(65536))
                while (received := session.take()) is not None:
                    vanishing.sendall(session.answer(received))
        wait_for(lambda: "user 'guest' is gone without closing the connection\n" in log.read_text())
        assert " WARNING " in log.read_text()


def test_refused_logins_and_changes_are_logged_with_who_and_from_where(tmp_path: Path) -> None:
    with Serving(tmp_path, "--log-file", "log", "--log-format", "json") as serving:
        with pytest.raises(ProbableAuthenticationError):
            connect(serving, "wrong")
        wrong = serving.http_url.replace("guest:guest", "guest:wrong")
        assert run_warren("status", "--url", wrong).returncode == 1
        url = ("--url", serving.http_url)
        assert run_warren("users", "add", "anna", "--password", "secret-word", *url).returncode == 0
        assert run_warren("policies", "set", "short", "^q", '{"max-length": 5}', *url).returncode == 0
    text = (tmp_path / "log").read_text()
    said = [json.loads(line)["message"] for line in text.splitlines()]
    assert any(line.startswith("127.0.0.1:") and "PLAIN login refused: user 'guest'" in line for line in said)
    assert "127.0.0.1: HTTP login refused: user 'guest' - invalid credentials" in said
    assert "user.created by user 'guest' from 127.0.0.1: name='anna'" in said
    assert "policy.set by user 'guest' from 127.0.0.1: vhost='/', name='short', pattern='^q'" in said
    assert "secret-word" not in text
    assert serving.errors == ""


def test_hanging_up_opens_the_log_file_anew_and_ends_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Serving(tmp_path, "--log-file", "log") as serving, connect(serving) as connection:
        log.rename(tmp_path / "log.1")
        hang_up(serving, log)
        assert connection.is_open
    assert "stopped" in log.read_text()
    assert "ready:" in (tmp_path / "log.1").read_text()


def test_hanging_up_takes_over_what_can_change_and_names_the_rest(tmp_path: Path) -> None:
    file, log = tmp_path / "warren.toml", tmp_path / "log"
    file.write_text("max_message_size = 10\nchannel_max = 100\n")
    with Serving(tmp_path, "--log-file", "log") as serving:
        file.write_text("max_message_size = 20\nchannel_max = 200\nlog_format = 'json'\n")
        said = hang_up(serving, log, "channel_max")
        assert json.loads(said.splitlines()[-1])["message"] == "channel_max has changed, and needs a restart"
        with connect(serving) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("q")
            channel.basic_publish("", "q", b"x" * 15)
            assert channel.queue_declare("q", passive=True).method.message_count == 1
        file.write_text("max_message_size = 'many'\n")
        hang_up(serving, log, "the configuration is not reloaded: ")
        connect(serving).close()


def test_hanging_up_renews_the_certificate_of_both_ports(tmp_path: Path) -> None:
    authority = trustme.CA()
    options = ["--tls-port", "0", "--tls-cert", "cert.pem", "--http-tls", "true", "--log-file", "log"]
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "cert.pem"))
    with Serving(tmp_path, *options) as serving:
        host, _, port = serving.http.rpartition(":")
        first = ssl.get_server_certificate((host, int(port)))
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "cert.pem"))
        hang_up(serving, tmp_path / "log")
        assert ssl.get_server_certificate((host, int(port))) != first
        (tmp_path / "cert.pem").write_text("rubbish")
        hang_up(serving, tmp_path / "log", "cannot load tls_cert")
        assert ssl.get_server_certificate((host, int(port))) != first


def test_a_log_file_is_put_aside_when_it_is_full(tmp_path: Path) -> None:
    with Serving(tmp_path, "--log-file", "log", "--log-file-bytes", "300", "--log-file-count", "2") as serving:
        for _ in range(5):
            connect(serving).close()
    assert sorted(path.name for path in tmp_path.glob("log*")) == ["log", "log.1", "log.2"]


def test_a_log_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    result = run_warren("serve", "--log-file", "no/such/log", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (
        1,
        "error: cannot write log_file no/such/log: No such file or directory\n",
    )
