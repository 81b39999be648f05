"""The page's files: what is sent with them, and what is not sent at all."""

from __future__ import annotations

import re

import pytest

from tests.management.asking import Asking
from warren import Broker
from warren.management.page import FOLDER, files


@pytest.fixture(scope="module")
def broker() -> Broker:
    running = Broker(http=True)
    return running.start()


@pytest.fixture(scope="module")
def anybody(broker: Broker) -> Asking:
    return Asking(broker, None)


def test_the_page_is_sent_to_anybody_with_a_policy_that_lets_nothing_else_in(anybody: Asking) -> None:
    answer = anybody.get("/")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "style-src 'self';" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


def test_the_page_has_no_script_or_style_inside(anybody: Asking) -> None:
    text = anybody.get("/").text
    assert "<style" not in text
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert not re.search(r"\son\w+=|\sstyle=", text)


@pytest.mark.parametrize("path", sorted(files()))
def test_every_file_is_sent_once_and_then_only_named(anybody: Asking, path: str) -> None:
    answer = anybody.get(f"/static/{path}") if not path.endswith(".woff2") else None
    if answer is None:
        return
    assert answer.status == 200
    assert answer.text.encode() == (FOLDER / path).read_bytes()
    again = anybody.get(f"/static/{path}", if_none_match=answer.headers["etag"])
    assert (again.status, again.text) == (304, "")


@pytest.mark.parametrize(
    "path", ["nothing.js", "../page.py", "%2e%2e/page.py", "..%2fpage.py", "views/../api.js", "vendor/README.md"]
)
def test_nothing_but_the_files_of_the_page_is_sent(anybody: Asking, path: str) -> None:
    assert anybody.get(f"/static/{path}").status == 404


def test_no_module_of_ours_turns_text_into_markup() -> None:
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|javascript:"
        r"|setAttribute\(\"style\""
    )
    ours = [path for path in files() if path.endswith(".js")]
    assert len(ours) > 20
    for path in ours:
        assert not forbidden.search(files()[path].content.decode()), path


def test_nothing_is_fetched_from_elsewhere() -> None:
    for path, file in files().items():
        # The comments of others name where they learned what.
        if path.endswith((".js", ".css", ".html")) and not path.startswith("vendor/"):
            found = set(re.findall(r"https?://[^\s\"')]+", file.content.decode()))
            assert found <= {"http://www.w3.org/2000/svg"}, path
