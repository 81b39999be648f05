"""What a broker starts with: a definitions file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from warren import Broker
from warren.errors import WarrenError

DOCUMENT = {"global_parameters": [{"name": "n", "value": "über"}], "vhosts": [{"name": "of-the-file"}]}


def started(path: Path, data: bytes) -> Broker:
    path.write_bytes(data)
    return Broker(definitions=str(path))


def test_a_byte_order_mark_before_a_definitions_file_is_passed_over(tmp_path: Path) -> None:
    text = json.dumps(DOCUMENT, ensure_ascii=False)
    with started(tmp_path / "d.json", text.encode("utf-8-sig")) as broker:
        broker.add_user("ann", "secret")
        broker.set_permission("ann", "of-the-file")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"global_parameters": [{"name": "n", "value": NaN}]}', "is not JSON: NaN is no number of JSON"),
        (b'{"global_parameters": [{"name": "n", "value": -1e999}]}', "is not JSON: -1e999 is no number of JSON"),
        (b'{"global_parameters": [{"name": "n", "value": "\\ud800"}]}', "is not JSON: "),
        (b'{"a": ' * 100_000, "is not JSON: "),
        (b'{"name": "\xff"}', "is not JSON: "),
        (b"[]", "holds no object"),
    ],
)
def test_a_definitions_file_that_no_answer_could_show_again_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(WarrenError, match="d.json " + words), started(tmp_path / "d.json", data):
        pass
