"""Messages in the page: looked at without being taken, searched, moved, sent back, scheduled, cancelled."""

from __future__ import annotations

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from playwright.sync_api import expect

from tests.management.asking import Asking
from tests.page.visitor import Visitor


@pytest.fixture
def queue(channel: BlockingChannel) -> str:
    """Five messages, of which the last two are for a tenant."""
    channel.queue_delete("letters")
    channel.queue_declare("letters", durable=True)
    for number in range(5):
        headers = {"tenant": "acme"} if number > 2 else {}
        properties = pika.BasicProperties(headers=headers, message_id=f"id-{number}")
        channel.basic_publish("", "letters", f"letter {number}".encode(), properties)
    return "letters"


def bodies(visitor: Visitor) -> list[str]:
    return visitor.page.locator(".messages pre").all_inner_texts()


def test_peeking_shows_messages_and_leaves_them_untouched(
    visitor: Visitor, channel: BlockingChannel, queue: str
) -> None:
    page = visitor.go("queues", "/", queue)
    page.get_by_role("button", name="Peek").click()
    expect(page.get_by_text("5 messages, oldest first. That is all.")).to_be_visible()
    assert bodies(visitor) == [f"letter {number}" for number in range(5)]
    page.locator(".messages summary").first.click()
    expect(page.locator(".messages li").first).to_contain_text("id-0")
    method, _, body = channel.basic_get(queue, auto_ack=True)
    assert (method.redelivered, method.message_count, body) == (False, 4, b"letter 0")


def test_a_search_shows_only_what_it_takes(visitor: Visitor, queue: str) -> None:
    page = visitor.go("queues", "/", queue)
    page.get_by_label("Header").fill("tenant=acme")
    page.get_by_role("button", name="Peek").click()
    expect(page.locator(".messages li")).to_have_count(2)
    assert bodies(visitor) == ["letter 3", "letter 4"]
    page.get_by_label("Header").fill("")
    page.get_by_label("Body contains").fill("nothing like it")
    page.get_by_role("button", name="Peek").click()
    expect(page.get_by_text("None of 5 messages is like that.")).to_be_visible()


def test_one_message_is_deleted_and_one_moved(visitor: Visitor, channel: BlockingChannel, queue: str) -> None:
    channel.queue_declare("elsewhere")
    page = visitor.go("queues", "/", queue)
    page.get_by_role("button", name="Peek").click()
    second = page.locator(".messages li", has_text="letter 1")
    second.get_by_role("button", name="Delete").click()
    visitor.confirm("Delete")
    expect(second).to_have_count(0)
    third = page.locator(".messages li", has_text="letter 2")
    third.get_by_role("button", name="Move").click()
    page.get_by_role("dialog").get_by_label("Named").fill("elsewhere")
    visitor.confirm("Move")
    expect(third).to_have_count(0)
    assert channel.basic_get("elsewhere", auto_ack=True)[2] == b"letter 2"
    left = [channel.basic_get(queue, auto_ack=True)[2] for _ in range(3)]
    assert left == [b"letter 0", b"letter 3", b"letter 4"]
    channel.queue_delete("elsewhere")


def test_all_messages_are_moved_or_it_is_said_why_not(visitor: Visitor, channel: BlockingChannel, queue: str) -> None:
    channel.queue_declare("elsewhere")
    page = visitor.go("queues", "/", queue)
    expect(page.locator(".tile", has_text="Ready").locator("b")).to_have_text("5")
    page.locator(".heading").get_by_role("button", name="Move").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Named").fill("no such queue")
    dialog.get_by_role("button", name="Move").click()
    expect(dialog.get_by_role("alert")).to_contain_text("no queue 'no such queue' in vhost '/'")
    dialog.get_by_label("Named").fill("elsewhere")
    visitor.confirm("Move")
    expect(page.locator(".toast", has_text="5 messages moved to elsewhere.")).to_be_visible()
    assert channel.queue_declare("elsewhere", passive=True).method.message_count == 5
    channel.queue_delete("elsewhere")


def test_dead_letters_are_sent_back(visitor: Visitor, channel: BlockingChannel) -> None:
    channel.queue_declare("died", durable=True)
    channel.queue_declare("origin", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "died"})
    channel.basic_publish("", "origin", b"again, please")
    method, _, _ = channel.basic_get("origin")
    channel.basic_reject(method.delivery_tag, requeue=False)
    page = visitor.go("queues", "/", "died")
    expect(page.locator(".tile", has_text="Ready").locator("b")).to_have_text("1")
    page.get_by_role("button", name="Redrive").click()
    visitor.confirm("Send back")
    expect(page.locator(".toast", has_text="1 message sent back.")).to_be_visible()
    _, properties, body = channel.basic_get("origin", auto_ack=True)
    assert (properties.headers["x-redrive-count"], body) == (1, b"again, please")


def test_a_scheduled_message_is_shown_and_cancelled(visitor: Visitor, channel: BlockingChannel, api: Asking) -> None:
    channel.exchange_declare("later", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    properties = pika.BasicProperties(headers={"x-delay": 3_600_000})
    channel.basic_publish("later", "in an hour", b"good morning", properties)
    page = visitor.go("exchanges", "/", "later")
    row = page.get_by_role("region", name="Waiting for their time").get_by_role("row", name="good morning")
    row.get_by_role("button", name="Cancel").click()
    visitor.confirm("Cancel the message")
    expect(page.get_by_text("Nothing waits for its time.")).to_be_visible()
    assert api.get("/api/scheduled/%2F/later").json["messages"] == []


def test_arguments_are_changed_in_place_or_it_is_said_why_not(visitor: Visitor, api: Asking, queue: str) -> None:
    page = visitor.go("queues", "/", queue)
    page.get_by_role("button", name="Change arguments").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Arguments").fill('{"x-max-priority": 5}')
    dialog.get_by_role("button", name="Change").click()
    expect(dialog.get_by_role("alert")).to_contain_text("x-max-priority cannot change")
    dialog.get_by_label("Arguments").fill('{"x-max-length": 100}')
    visitor.confirm("Change")
    expect(page.locator(".toast", has_text="Changed: x-max-length.")).to_be_visible()
    assert api.get(f"/api/queues/%2F/{queue}").json["arguments"] == {"x-max-length": 100}


def test_a_stream_is_shown_with_its_offsets_and_can_be_looked_into(visitor: Visitor, channel: BlockingChannel) -> None:
    channel.queue_declare("events", durable=True, arguments={"x-queue-type": "stream", "x-max-age": "7D"})
    for number in range(3):
        channel.basic_publish("", "events", f"event {number}".encode())
    page = visitor.go("streams")
    row = page.get_by_role("row", name="events")
    expect(row.get_by_role("cell", name="0 to 2")).to_be_visible()
    expect(row).to_contain_text("7D")
    row.get_by_role("link", name="events").click()
    page.get_by_role("button", name="Peek").click()
    expect(page.locator(".messages li")).to_have_count(3)
    expect(page.locator(".messages").get_by_role("button", name="Delete")).to_have_count(0)
