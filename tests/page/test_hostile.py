"""Names, headers and bodies that try to become part of the page: they are shown as the text that they are."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.management.asking import Asking
from tests.page.visitor import Visitor
from warren import Broker

# Each would say so if it ran: window.ran counts, and any dialog is noted by the visitor.
PAYLOADS = (
    '<img src=x onerror="window.ran=1">',
    "<script>window.ran=1;alert(1)</script>",
    "\"><svg onload=window.ran=1>'",
    "javascript:window.ran=1",
    "${window.ran=1}{{constructor.constructor('window.ran=1')()}}",
)
ALL = " ".join(PAYLOADS)
SHORT = PAYLOADS[0]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(http=True) as running, pika.BlockingConnection(_parameters(running)) as connection:
        _fill(running, connection)
        yield running


def _parameters(broker: Broker) -> pika.URLParameters:
    parameters = pika.URLParameters(broker.url)
    parameters.client_properties = {"connection_name": SHORT, "product": SHORT, "version": SHORT}
    return parameters


def _fill(broker: Broker, connection: pika.BlockingConnection) -> None:
    """A payload in every place where a client or an operator may write something."""
    channel = connection.channel()
    channel.exchange_declare(ALL[:250], "topic", arguments={"alternate-exchange": SHORT})
    for payload in PAYLOADS:
        channel.exchange_declare(payload, "fanout", arguments={f"x-{SHORT}": SHORT})
        channel.queue_declare(payload, arguments={"x-dead-letter-exchange": payload, f"x-{SHORT}": SHORT})
        channel.queue_bind(payload, payload, payload, arguments={SHORT: payload})
        properties = pika.BasicProperties(
            content_type=payload,
            content_encoding=payload,
            headers={payload: payload, "table": {payload: [payload]}},
            correlation_id=payload,
            reply_to=payload,
            message_id=payload,
            type=payload,
            app_id=payload,
        )
        channel.basic_publish(payload, payload, payload.encode(), properties)
    channel.queue_declare(ALL[:250])
    stream = f"stream {SHORT}"
    channel.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream", "x-max-age": "1D"})
    channel.basic_publish("", stream, SHORT.encode())
    channel.basic_consume(ALL[:250], lambda *_: None, consumer_tag=SHORT)
    traced = pika.BasicProperties(headers={"x-warren-trace": True}, message_id=SHORT)
    channel.basic_publish(ALL[:250], SHORT, b"", traced)
    channel.basic_publish(SHORT, SHORT, b"", traced)
    broker.add_vhost(SHORT)
    broker.add_user(SHORT, "secret", [SHORT, "management"])
    broker.set_permission(SHORT, configure="<b>", write="<i onclick=window.ran=1>", read=".*")
    broker.set_topic_permission(SHORT, SHORT, write="<b>", read="<i>")
    broker.set_policy(SHORT, ".*<", {"dead-letter-routing-key": SHORT})
    api = Asking(broker)
    path = "/api/operator-policies/%2F/%3Cb%3E"
    assert api.put(path, {"pattern": "<i>", "definition": {"max-length": 5}}).status == 201


def nothing_ran(visitor: Visitor) -> None:
    assert visitor.page.evaluate("window.ran") is None
    made = visitor.page.locator("main :is(script, iframe, object, img[src=x], [onerror], [onload], [onclick])")
    expect(made).to_have_count(0)
    visitor.check()


def shown(page: Page, text: str) -> None:
    expect(page.locator("main").get_by_text(text).locator("visible=true").first).to_be_visible()


@pytest.mark.parametrize(
    ("view", "text"),
    [
        ("overview", SHORT),
        ("queues", SHORT),
        ("exchanges", SHORT),
        ("connections", SHORT),
        ("policies", SHORT),
        ("access", SHORT),
        ("streams", SHORT),
        ("definitions", "Download definitions"),
        ("journey", SHORT),
        ("journey/1", SHORT),
        ("journey/2", SHORT),
    ],
)
def test_a_view_shows_hostile_names_as_text(visitor: Visitor, view: str, text: str) -> None:
    page = visitor.go(*view.split("/"))
    shown(page, text)
    nothing_ran(visitor)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_queue_and_its_messages_are_shown_as_text(visitor: Visitor, payload: str) -> None:
    page = visitor.go("queues", "/", payload)
    expect(visitor.heading(payload)).to_be_visible()
    page.get_by_role("button", name="Peek").click()
    message = page.locator(".messages li").first
    expect(message.locator("pre")).to_have_text(payload)
    message.locator("summary").click()
    expect(message.get_by_text(payload).nth(2)).to_be_visible()
    nothing_ran(visitor)


def test_an_exchange_is_shown_as_text(visitor: Visitor) -> None:
    visitor.go("exchanges", "/", SHORT)
    expect(visitor.heading(SHORT)).to_be_visible()
    nothing_ran(visitor)


def test_dialogs_and_menus_show_names_as_text(visitor: Visitor) -> None:
    page = visitor.go("queues")
    page.get_by_label("Filter").fill(SHORT)
    page.get_by_role("button", name=f"Actions for {SHORT}", exact=True).click()
    page.get_by_role("menuitem", name="Purge").click()
    expect(page.get_by_role("dialog")).to_contain_text(f"Purge {SHORT}?")
    visitor.confirm("Purge")
    expect(page.locator(".toast", has_text=SHORT)).to_be_visible()
    nothing_ran(visitor)


def test_a_hostile_address_shows_nothing_of_itself_as_markup(visitor: Visitor) -> None:
    for hash_ in (
        "#/queues/%2F/%3Cimg%20src%3Dx%20onerror%3Dwindow.ran%3D1%3E",
        "#/%E0%A4%A",
        "#/__proto__/constructor",
    ):
        visitor.page.evaluate("hash => location.hash = hash", hash_)
        expect(visitor.page.get_by_role("heading", level=1)).to_be_visible()
        nothing_ran(visitor)


def test_a_hostile_user_and_virtual_host_are_shown_in_the_frame(browser: Browser, broker: Broker) -> None:
    visitor = Visitor(browser, broker).enter(SHORT, "secret")
    expect(visitor.page.locator(".who")).to_contain_text(SHORT)
    nothing_ran(visitor)
    visitor.leave()


def test_the_policy_would_have_stopped_it_anyway(browser: Browser, broker: Broker) -> None:
    """The second wall: even markup that somebody forced into the page does not run, and is reported."""
    visitor = Visitor(browser, broker).enter()
    visitor.page.evaluate("markup => document.body.insertAdjacentHTML('beforeend', markup)", SHORT)
    visitor.page.wait_for_function("window.violations.length > 0")
    assert visitor.page.evaluate("window.ran") is None
    visitor.context.close()
