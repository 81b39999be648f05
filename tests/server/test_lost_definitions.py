"""Messages without the definitions of their queues: nothing is dropped unasked, nothing in silence."""

from __future__ import annotations

from pathlib import Path

import pika
import pytest

from warren import Broker
from warren.errors import WarrenError


def store_a_message(data_dir: Path) -> None:
    with Broker(data_dir=str(data_dir)) as broker, pika.BlockingConnection(pika.URLParameters(broker.url)) as client:
        channel = client.channel()
        channel.confirm_delivery()
        channel.queue_declare("kept", durable=True)
        channel.basic_publish("", "kept", b"m", pika.BasicProperties(delivery_mode=2))


def test_a_folder_that_lost_its_definitions_is_not_opened_and_loses_no_message(tmp_path: Path) -> None:
    store_a_message(tmp_path)
    definitions = tmp_path / "definitions.sqlite"
    kept = definitions.read_bytes()
    definitions.unlink()
    with pytest.raises(WarrenError, match="messages of 1 queues but no definitions"):
        Broker(data_dir=str(tmp_path)).start()
    definitions.write_bytes(kept)
    with Broker(data_dir=str(tmp_path)) as broker, pika.BlockingConnection(pika.URLParameters(broker.url)) as client:
        assert client.channel().basic_get("kept", auto_ack=True)[2] == b"m"
