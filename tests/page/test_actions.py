"""What the page does to the broker: asked for in dialogs, done over the API, seen by a client of the AMQP side."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from playwright.sync_api import Page, expect

from tests.management.asking import Asking
from tests.page.visitor import Visitor


@pytest.fixture
def queue(channel: BlockingChannel, request: pytest.FixtureRequest) -> str:
    name = f"of-{request.node.name.removeprefix('test_')[:40]}"
    channel.queue_declare(name, durable=True)
    return name


def menu(page: Page, of: str, action: str) -> None:
    page.get_by_label("Filter").first.fill(of)
    page.get_by_role("button", name=f"Actions for {of}", exact=True).click()
    page.get_by_role("menuitem", name=action).click()


def said(page: Page, text: str) -> None:
    expect(page.locator(".toast", has_text=text).first).to_be_visible()


def depth(channel: BlockingChannel, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def test_a_queue_is_declared_with_its_arguments(visitor: Visitor, channel: BlockingChannel, api: Asking) -> None:
    page = visitor.go("queues")
    page.get_by_role("button", name="Declare a queue").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("declared here")
    dialog.get_by_label("Arguments").fill("{not json")
    dialog.get_by_role("button", name="Declare").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Arguments must be JSON")
    dialog.get_by_label("Arguments").fill('{"x-max-length": 5}')
    visitor.confirm("Declare")
    expect(page.get_by_role("link", name="declared here")).to_be_visible()
    made = api.get("/api/queues/%2F/declared%20here").json
    assert (made["durable"], made["arguments"]) == (True, {"x-max-length": 5})
    channel.queue_delete("declared here")


def test_what_the_broker_refuses_is_said_in_the_dialog(visitor: Visitor, queue: str) -> None:
    page = visitor.go("queues")
    page.get_by_role("button", name="Declare a queue").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill(queue)
    dialog.get_by_label("Arguments").fill('{"x-max-length": 5}')
    dialog.get_by_role("button", name="Declare").click()
    expect(dialog.get_by_role("alert")).to_contain_text("inequivalent arg 'x-max-length'")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_a_message_is_published_with_its_headers(visitor: Visitor, channel: BlockingChannel, queue: str) -> None:
    page = visitor.go("queues")
    menu(page, queue, "Publish a message")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Payload").fill("hello from the page")
    dialog.get_by_label("Headers").fill('{"tenant": "acme"}')
    visitor.confirm("Publish")
    said(page, "at least one queue has it")
    _, properties, body = channel.basic_get(queue, auto_ack=True)
    assert (properties.delivery_mode, properties.headers, body) == (2, {"tenant": "acme"}, b"hello from the page")


def test_a_message_that_reaches_no_queue_is_said_so(visitor: Visitor) -> None:
    page = visitor.go("exchanges", "/", "orders")
    page.get_by_role("button", name="Publish").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Routing key").fill("nobody")
    dialog.get_by_role("button", name="Publish").click()
    expect(dialog.get_by_role("alert")).to_contain_text("It reached no queue")
    page.keyboard.press("Escape")


def test_a_purge_asks_first(visitor: Visitor, channel: BlockingChannel, queue: str) -> None:
    for number in range(3):
        channel.basic_publish("", queue, str(number).encode())
    page = visitor.go("queues", "/", queue)
    expect(page.locator(".tile", has_text="Ready").locator("b")).to_have_text("3")
    page.get_by_role("button", name="Purge").click()
    expect(page.get_by_role("dialog")).to_contain_text("3 ready messages will be gone for good")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert depth(channel, queue) == 3
    page.get_by_role("button", name="Purge").click()
    visitor.confirm("Purge")
    expect(page.locator(".tile", has_text="Ready").locator("b")).to_have_text("0")
    assert depth(channel, queue) == 0


def test_a_queue_is_deleted(visitor: Visitor, api: Asking, queue: str) -> None:
    page = visitor.go("queues")
    menu(page, queue, "Delete")
    visitor.confirm("Delete")
    expect(page.locator("tbody tr")).to_have_count(0)
    assert api.get(f"/api/queues/%2F/{queue}").status == 404


def test_bindings_are_made_and_removed(visitor: Visitor, channel: BlockingChannel, api: Asking, queue: str) -> None:
    page = visitor.go("queues", "/", queue)
    page.get_by_role("button", name="Add a binding").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("From the exchange").fill("shop")
    dialog.get_by_label("Routing key").fill("a/b.#")
    visitor.confirm("Bind")
    row = page.get_by_role("region", name="Bindings").get_by_role("row", name="a/b.#")
    expect(row).to_be_visible()
    row.get_by_role("button", name="Unbind").click()
    visitor.confirm("Unbind")
    expect(row).to_have_count(0)
    assert len(api.get(f"/api/queues/%2F/{queue}/bindings").json) == 1
    channel.queue_delete(queue)


def test_an_exchange_is_declared_and_deleted(visitor: Visitor, api: Asking) -> None:
    page = visitor.go("exchanges")
    page.get_by_role("button", name="Declare an exchange").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("made/here")
    dialog.get_by_label("Type").select_option("topic")
    visitor.confirm("Declare")
    assert api.get("/api/exchanges/%2F/made%2Fhere").json["type"] == "topic"
    page.get_by_role("region", name="All exchanges").get_by_role("link", name="made/here").click()
    page.get_by_role("button", name="Delete").click()
    visitor.confirm("Delete")
    said(page, "made/here was deleted")
    assert api.get("/api/exchanges/%2F/made%2Fhere").status == 404


def test_a_user_is_made_given_permissions_and_deleted(visitor: Visitor, api: Asking) -> None:
    page = visitor.go("access")
    page.get_by_role("button", name="Add a user").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("hazel")
    dialog.get_by_label("Password").fill("clover")
    visitor.confirm("Save")
    users = page.get_by_role("region", name="Users", exact=True)
    expect(users.get_by_role("row", name="hazel")).to_be_visible()
    page.get_by_role("button", name="Actions for hazel").click()
    page.get_by_role("menuitem", name="Set permissions", exact=True).click()
    dialog.get_by_label("May write to").fill("^orders$")
    visitor.confirm("Save")
    row = page.get_by_role("region", name="Permissions", exact=True).get_by_role("row", name="hazel")
    expect(row.get_by_role("cell", name="^orders$")).to_be_visible()
    assert api.get("/api/permissions/%2F/hazel").json["write"] == "^orders$"
    page.get_by_role("button", name="Actions for hazel").click()
    page.get_by_role("menuitem", name="Delete").click()
    visitor.confirm("Delete")
    expect(users.get_by_role("row", name="hazel")).to_have_count(0)
    assert api.get("/api/users/hazel").status == 404


def test_a_policy_is_added_changed_and_deleted(visitor: Visitor, api: Asking, queue: str) -> None:
    page = visitor.go("policies")
    page.get_by_role("button", name="Add a policy").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("short")
    dialog.get_by_label("Pattern").fill("^of-")
    dialog.get_by_label("Sets").fill('{"max-length": 7}')
    visitor.confirm("Save")
    assert api.get(f"/api/queues/%2F/{queue}").json["effective_policy_definition"] == {"max-length": 7}
    page.get_by_role("button", name="Actions for short").click()
    page.get_by_role("menuitem", name="Change").click()
    dialog.get_by_label("Sets").fill('{"max-length": 9}')
    visitor.confirm("Save")
    expect(page.get_by_role("row", name="short").get_by_text("9", exact=True)).to_be_visible()
    page.get_by_role("button", name="Actions for short").click()
    page.get_by_role("menuitem", name="Delete").click()
    visitor.confirm("Delete")
    expect(page.get_by_text(re.compile("^No policies"))).to_be_visible()
    assert api.get("/api/policies").json == []


def test_definitions_are_imported_after_a_look_at_them(visitor: Visitor, api: Asking, tmp_path: Path) -> None:
    file = tmp_path / "new.json"
    new = {"name": "imported", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    file.write_text(json.dumps({"rabbit_version": "3.10.8", "queues": [new]}))
    page = visitor.go("definitions")
    page.get_by_label("Definitions file").set_input_files(file)
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_role("dialog")).to_contain_text("1 definition will be added")
    visitor.confirm("Import")
    said(page, "new.json was imported")
    assert api.get("/api/queues/%2F/imported").json["durable"] is True


def test_a_file_without_definitions_is_refused_in_words(visitor: Visitor, tmp_path: Path) -> None:
    page = visitor.go("definitions")
    for name, text, words in (("a", "{", "This is not JSON"), ("b", '{"a": 1}', "This file holds no definitions")):
        file = tmp_path / f"{name}.json"
        file.write_text(text)
        page.get_by_label("Definitions file").set_input_files(file)
        expect(page.get_by_role("alert").filter(has_text=words)).to_be_visible()
