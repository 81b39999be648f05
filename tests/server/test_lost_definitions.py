"""Messages without the definitions of their queues: nothing is dropped unasked, nothing in silence."""

from __future__ import annotations

import shutil
from pathlib import Path

import pika
import pytest
from click.testing import CliRunner

from warren import Broker
from warren.cli.main import warren
from warren.errors import WarrenError
from warren.store.inspect import MESSAGES
from warren.store.old_definitions import FILE_NAME, PUT_ASIDE

KEPT = "1 messages of queue 'second' in vhost '/' are kept, but no such queue is defined"
GOLDEN = Path(__file__).parent.parent / "store" / "golden-sqlite"


def store_a_message(data_dir: Path, *queues: str) -> None:
    with Broker(data_dir=str(data_dir)) as broker, pika.BlockingConnection(pika.URLParameters(broker.url)) as client:
        channel = client.channel()
        channel.confirm_delivery()
        for queue in queues:
            channel.queue_declare(queue, durable=True)
            channel.basic_publish("", queue, b"m", pika.BasicProperties(delivery_mode=2))


def definitions_of(data_dir: Path) -> dict[Path, bytes]:
    return {
        path: path.read_bytes() for path in (data_dir / MESSAGES).iterdir() if path.suffix in (".base", ".definitions")
    }


def restore(data_dir: Path, files: dict[Path, bytes]) -> None:
    for path in definitions_of(data_dir):
        path.unlink()
    for path, data in files.items():
        path.write_bytes(data)


def body_in(data_dir: Path, queue: str) -> bytes:
    with Broker(data_dir=str(data_dir)) as broker, pika.BlockingConnection(pika.URLParameters(broker.url)) as client:
        body = client.channel().basic_get(queue, auto_ack=True)[2]
        assert isinstance(body, bytes)
        return body


def test_a_folder_that_lost_its_definitions_is_not_opened_and_loses_no_message(tmp_path: Path) -> None:
    store_a_message(tmp_path, "kept")
    kept = definitions_of(tmp_path)
    restore(tmp_path, {})
    with pytest.raises(WarrenError, match="messages of 1 queues but no definitions"):
        Broker(data_dir=str(tmp_path)).start()
    restore(tmp_path, kept)
    assert body_in(tmp_path, "kept") == b"m"


def damaged(files: dict[Path, bytes], word: bytes) -> dict[Path, bytes]:
    return {path: data.replace(word, b"#" * len(word)) for path, data in files.items()}


def test_messages_of_a_queue_whose_definition_is_damaged_wait_for_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store_a_message(tmp_path, "first", "second")
    whole = definitions_of(tmp_path)
    restore(tmp_path, damaged(whole, b"second"))
    assert body_in(tmp_path, "first") == b"m"
    assert KEPT in caplog.text
    # Also the second time, when nothing is damaged any more.
    caplog.clear()
    with Broker(data_dir=str(tmp_path)):
        pass
    assert KEPT in caplog.text
    restore(tmp_path, whole)
    assert body_in(tmp_path, "second") == b"m"


def test_messages_of_undefined_queues_can_be_given_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store_a_message(tmp_path, "first", "second")
    restore(tmp_path, damaged(definitions_of(tmp_path), b"second"))
    runner = CliRunner()
    refused = runner.invoke(warren, ["store", "forget", str(tmp_path)], input="n\n")
    assert refused.exit_code == 1
    assert "1 messages of queue 'second' in vhost '/'" in refused.output
    done = runner.invoke(warren, ["store", "forget", "--yes", str(tmp_path)])
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "they are gone")
    nothing = runner.invoke(warren, ["store", "forget", str(tmp_path)])
    assert nothing.output == "every message belongs to a queue that is defined\n"
    assert body_in(tmp_path, "first") == b"m"
    assert "are kept" not in caplog.text


def test_a_folder_of_somebody_else_is_not_forgotten(tmp_path: Path) -> None:
    result = CliRunner().invoke(warren, ["store", "forget", str(tmp_path)])
    assert isinstance(result.exception, WarrenError)
    assert "is no data folder of Warren" in str(result.exception)


def test_definitions_in_sqlite_are_taken_over_once(tmp_path: Path) -> None:
    data_dir = shutil.copytree(GOLDEN, tmp_path / "data")
    for _ in range(2):
        with (
            Broker(data_dir=str(data_dir)) as broker,
            pika.BlockingConnection(pika.URLParameters(broker.url)) as client,
        ):
            assert client.channel().queue_declare("audit", passive=True).method.message_count == 20
        assert not (data_dir / FILE_NAME).exists()
        assert (data_dir / PUT_ASIDE).exists()


@pytest.mark.parametrize("content", [b"definitely not a database" * 50, b""])
def test_a_file_that_is_none_of_ours_is_told_in_one_line_and_left(tmp_path: Path, content: bytes) -> None:
    data_dir = shutil.copytree(GOLDEN, tmp_path / "data")
    (data_dir / FILE_NAME).write_bytes(content)
    with pytest.raises(WarrenError, match="not a definitions file of Warren"):
        Broker(data_dir=str(data_dir)).start()
    assert (data_dir / FILE_NAME).read_bytes() == content
