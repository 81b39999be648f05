"""The journey in the page: traced, drawn stage by stage, and asked for without publishing."""

from __future__ import annotations

import re

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from playwright.sync_api import Browser, Locator, Page, expect

from tests.page.visitor import PHONE, Visitor
from warren import Broker


@pytest.fixture(autouse=True)
def forget(broker: Broker) -> None:
    broker.call(lambda node: node.journeys.kept.clear())


def stations(page: Page) -> Locator:
    return page.locator(".station h3")


def publish(channel: BlockingChannel, key: str) -> None:
    properties = pika.BasicProperties(headers={"x-warren-trace": True}, message_id="m-1")
    channel.basic_publish("shop", key, b"hello", properties)


def test_a_message_that_asks_for_it_is_shown_stage_by_stage(visitor: Visitor, channel: BlockingChannel) -> None:
    publish(channel, "order.paid")
    page = visitor.go("journey")
    page.get_by_role("link", name="shop → order.paid").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile(r"^Journey \d+$"))
    expect(stations(page).first).to_have_text("Read from the socket")
    names = stations(page).all_inner_texts()
    assert names.index("Permission checked") < names.index("Routed") < names.index("Into a queue")
    assert names[-1] == "Confirm"
    times = page.locator(".station .time").all_inner_texts()
    assert all(re.fullmatch(r"\+[\d.,]+ (µs|ms)", time) for time in times)
    expect(page.locator(".facts").first).to_contain_text("m-1")


def test_the_picture_shows_what_matched_and_what_did_not(visitor: Visitor, channel: BlockingChannel) -> None:
    publish(channel, "order.paid")
    page = visitor.go("journey")
    page.get_by_role("link", name="shop → order.paid").click()
    graph = page.locator(".station warren-graph")
    expect(graph.locator(".node.reached")).to_have_count(3)
    expect(graph.locator(".line.met")).to_have_count(4)
    expect(graph.locator(".node", has_text="audit")).not_to_have_class(re.compile("reached"))
    expect(page.locator(".reasons .met")).to_contain_text(["pattern 'order.#' matches 'order.paid'"])
    expect(page.locator(".reasons .missed").first).to_contain_text("does not match")


def test_the_next_messages_are_traced_when_asked_for(visitor: Visitor, channel: BlockingChannel) -> None:
    page = visitor.go("journey")
    expect(page.get_by_text("No message was traced yet.")).to_be_visible()
    page.get_by_role("button", name="Trace the next").click()
    page.get_by_role("dialog").get_by_label("How many messages").fill("2")
    visitor.confirm("Trace")
    expect(page.get_by_text("The next 2 messages will be traced.").first).to_be_visible()
    for _ in range(3):
        channel.basic_publish("", "nobody", b"")
    rows = page.get_by_role("region", name="Latest journeys").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("dropped")
    page.get_by_role("button", name="Forget all").click()
    visitor.confirm("Forget")
    expect(rows).to_have_count(0)


def test_it_is_told_where_a_message_would_go_without_publishing_it(visitor: Visitor, channel: BlockingChannel) -> None:
    before = channel.queue_declare("audit", passive=True).method.message_count
    page = visitor.go("journey")
    page.get_by_label("Exchange", exact=True).fill("shop")
    page.get_by_label("Routing key").fill("x.audit")
    page.get_by_role("button", name="Answer").click()
    expect(page.get_by_text("would be routed")).to_be_visible()
    expect(page.locator(".node.reached")).to_contain_text("audit")
    assert channel.queue_declare("audit", passive=True).method.message_count == before
    page.get_by_label("Exchange", exact=True).fill("no such exchange")
    page.get_by_role("button", name="Answer").click()
    expect(page.get_by_text("404 NOT_FOUND")).to_be_visible()


def test_a_message_published_here_leads_to_its_journey(visitor: Visitor) -> None:
    page = visitor.go("queues", "/", "lost")
    page.get_by_role("button", name="Publish").click()
    page.get_by_role("dialog").get_by_label("Show its journey").check()
    visitor.confirm("Publish")
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile(r"^Journey \d+$"))
    expect(page.get_by_text("(default) → lost")).to_be_visible()
    expect(page.locator(".node.reached")).to_contain_text("lost")


def test_a_journey_fits_on_a_phone(browser: Browser, broker: Broker, channel: BlockingChannel) -> None:
    publish(channel, "order.paid")
    number = broker.call(lambda node: node.journeys.kept[-1].number)
    visitor = Visitor(browser, broker, PHONE, "dark").enter()
    visitor.go("journey", str(number))
    expect(stations(visitor.page).last).to_be_visible()
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    visitor.leave()


def test_a_refused_message_shows_where_it_ended(visitor: Visitor, broker: Broker) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        properties = pika.BasicProperties(headers={"x-warren-trace": True})
        channel = connection.channel()
        channel.basic_publish("no-such-exchange", "k", b"", properties)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            channel.queue_declare("never", passive=True)
    page = visitor.go("journey")
    page.get_by_role("link", name="no-such-exchange → k").click()
    expect(stations(page).last).to_have_text("Refused")
    expect(page.get_by_text("404 NOT_FOUND: no exchange 'no-such-exchange' in vhost '/'")).to_be_visible()
    expect(page.locator(".facts").first).to_contain_text("refused")
