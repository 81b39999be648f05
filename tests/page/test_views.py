"""Every view shows what the broker does, while it does it."""

from __future__ import annotations

import json
import re

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from playwright.sync_api import Browser, Page, expect

from tests.management.asking import Asking
from tests.page import shop
from tests.page.visitor import VIEWS, Visitor
from warren import Broker

pytestmark = pytest.mark.usefixtures("busy")


def figure(page: Page, tile: str) -> str:
    return page.locator(".tile", has_text=tile).locator("b").inner_text()


def until_figure(page: Page, tile: str, pattern: str) -> None:
    expect(page.locator(".tile", has_text=tile).locator("b")).to_have_text(re.compile(pattern))


def test_a_wrong_password_is_said_in_words(browser: Browser, broker: Broker) -> None:
    visitor = Visitor(browser, broker)
    page = visitor.page
    page.goto(broker.http_url)
    page.get_by_label("User").fill("guest")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert").filter(has_text="do not fit together")).to_be_visible()
    visitor.leave()


def test_a_user_without_the_tag_is_told_what_is_missing(browser: Browser, broker: Broker) -> None:
    broker.add_user("nobody", "nobody")
    visitor = Visitor(browser, broker)
    visitor.page.goto(broker.http_url)
    visitor.page.get_by_label("User").fill("nobody")
    visitor.page.get_by_label("Password").fill("nobody")
    visitor.page.keyboard.press("Enter")
    expect(visitor.page.get_by_text("an administrator can give it the management tag")).to_be_visible()
    visitor.leave()


def test_a_broker_that_went_away_is_said_to_be_away(browser: Browser) -> None:
    with Broker(http=True) as leaving:
        visitor = Visitor(browser, leaving).enter()
    expect(visitor.page.locator("header .state")).to_have_text("No answer")
    expect(visitor.page.get_by_text("The broker does not answer. What is shown may be old")).to_be_visible()
    visitor.leave()


def test_logging_out_leads_back_to_the_login(browser: Browser, broker: Broker) -> None:
    visitor = Visitor(browser, broker).enter()
    visitor.page.get_by_role("button", name="Log out").click()
    expect(visitor.page.get_by_role("button", name="Log in")).to_be_visible()
    visitor.page.reload()
    expect(visitor.page.get_by_role("button", name="Log in")).to_be_visible()
    visitor.leave()


def test_a_reload_keeps_the_session_and_no_script_can_read_it(browser: Browser, broker: Broker) -> None:
    visitor = Visitor(browser, broker).enter()
    visitor.go("queues")
    visitor.page.reload()
    expect(visitor.heading("Queues")).to_be_visible()
    (cookie,) = visitor.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    kept = "[document.cookie, JSON.stringify({...localStorage}), JSON.stringify({...sessionStorage})].join()"
    assert cookie["value"] not in visitor.page.evaluate(kept)
    visitor.leave()


def test_a_session_that_ends_leads_back_to_the_login(browser: Browser, broker: Broker) -> None:
    visitor = Visitor(browser, broker).enter()
    visitor.context.clear_cookies()
    expect(visitor.page.get_by_role("alert").filter(has_text="The session has ended")).to_be_visible()
    visitor.leave()


def test_a_login_in_another_tab_does_not_stop_this_one(browser: Browser, broker: Broker) -> None:
    visitor = Visitor(browser, broker).enter()
    other = visitor.context.new_page()
    other.goto(broker.http_url)
    expect(other.get_by_role("button", name="Log out")).to_be_visible()
    login = """fetch('/api/login', {method: 'POST', headers: {'Content-Type': 'application/json'},
        body: JSON.stringify({username: 'guest', password: 'guest'})})"""
    assert other.evaluate(f"{login}.then((answer) => answer.status)") == 200
    page = visitor.go("queues", "/", "audit")
    page.get_by_role("button", name="Purge").click()
    visitor.confirm("Purge")
    expect(page.locator(".toast", has_text="audit was purged")).to_be_visible()
    visitor.leave()


def test_the_overview_shows_rates_and_depths_as_they_are(visitor: Visitor) -> None:
    page = visitor.page
    until_figure(page, "Into queues", r"^[1-9][\d,]+/s$")
    until_figure(page, "Delivered", r"^[1-9][\d,]*/s$")
    until_figure(page, "Connections", r"^1$")
    before = figure(page, "Ready")
    expect(page.locator(".tile", has_text="Ready").locator("b")).not_to_have_text(before)
    for title in ("Message rates", "Depth of all queues", "Latency", "Memory"):
        chart = page.locator("warren-chart", has_text=title)
        expect(chart.locator("canvas")).to_have_count(1)
        expect(chart.locator(".legend b").first).to_have_text(re.compile(r"\d"))
    expect(page.get_by_role("list").get_by_role("link", name="audit")).to_be_visible()
    expect(page.locator(".facts", has_text="Listening")).to_contain_text("amqp on 127.0.0.1")


def test_a_chart_draws_a_line_that_is_not_empty(visitor: Visitor) -> None:
    canvas = visitor.page.locator("warren-chart", has_text="Depth of all queues").locator("canvas")
    expect(canvas).to_have_count(1)
    count = """canvas => {
        const color = getComputedStyle(canvas).getPropertyValue("--series-4").trim();
        const [r, g, b] = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
        const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        let found = 0;
        for (let at = 0; at < pixels.length; at += 4)
            if (Math.abs(pixels[at] - r) + Math.abs(pixels[at + 1] - g) + Math.abs(pixels[at + 2] - b) < 24) found += 1;
        return found;
    }"""
    visitor.page.wait_for_function(f"canvas => ({count})(canvas) > 20", arg=canvas.element_handle())


def test_an_alarm_stands_in_every_view(visitor: Visitor, broker: Broker) -> None:
    state = visitor.page.locator("header .state")
    expect(state).to_have_text(re.compile("running$"))
    broker.call(lambda node: node.set_alarm("fd", True))
    try:
        visitor.go("policies")
        expect(state).to_have_text("Alarm: file descriptors short, publishers are blocked")
    finally:
        broker.call(lambda node: node.set_alarm("fd", False))
    expect(state).to_have_text(re.compile("running$"))


def test_a_tab_that_nobody_sees_asks_nothing(visitor: Visitor) -> None:
    page = visitor.page
    hide = "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});"
    change = f"{hide} document.dispatchEvent(new Event('visibilitychange')); }}"
    asked: list[str] = []
    page.evaluate(change, True)
    try:
        page.on("request", lambda request: asked.append(request.url))
        page.wait_for_timeout(2500)
        hidden = list(asked)
    finally:
        # The tab is shared: left hidden, it would show the tests that follow nothing new.
        with page.expect_request("**/api/overview"):
            page.evaluate(change, False)
    # Chromium fetches the icon when it likes.
    assert [url for url in hidden if "/api/" in url] == []


def test_queues_are_listed_with_what_is_in_them(visitor: Visitor) -> None:
    page = visitor.go("queues")
    expect(page.get_by_role("row")).to_have_count(len(shop.QUEUES) + 1)
    row = page.get_by_role("row", name="audit")
    expect(row.get_by_role("cell").nth(2)).to_have_text(re.compile(r"^[\d,]*[1-9][\d,]*$"))
    expect(page.get_by_role("status").filter(has_text="7 queues")).to_be_visible()


def test_queues_are_sorted_by_any_heading(visitor: Visitor) -> None:
    page = visitor.go("queues")
    total = page.get_by_role("columnheader", name="Total")
    expect(total).to_have_attribute("aria-sort", "descending")
    page.get_by_role("button", name="Name").click()
    expect(page.get_by_role("columnheader", name="Name")).to_have_attribute("aria-sort", "ascending")
    expect(total).to_have_attribute("aria-sort", "none")
    names = page.locator("tbody tr td:first-child a")
    expect(names).to_have_text(sorted(shop.QUEUES))
    page.get_by_role("button", name="Name").click()
    expect(names).to_have_text(sorted(shop.QUEUES, reverse=True))


def test_queues_are_filtered_by_a_part_of_the_name(visitor: Visitor) -> None:
    page = visitor.go("queues")
    page.get_by_label("Filter").fill("orders")
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.get_by_text("2 of 7 queues")).to_be_visible()
    page.get_by_label("Filter").fill("no such thing")
    expect(page.get_by_text("No queue has “no such thing” in its name.")).to_be_visible()


def test_a_queue_is_shown_with_its_bindings_and_consumers(visitor: Visitor) -> None:
    page = visitor.go("queues", "/", "mail")
    expect(visitor.heading("mail")).to_be_visible()
    until_figure(page, "Consumers", "^1$")
    until_figure(page, "In", r"^[1-9][\d,]*/s$")
    bindings = page.get_by_role("region", name="Bindings")
    expect(bindings.get_by_role("row")).to_have_count(4)
    expect(bindings.get_by_role("cell", name="mail.*")).to_be_visible()
    expect(page.get_by_role("region", name="Consumers").get_by_role("cell", name="ctag1")).to_be_visible()


def test_a_queue_that_is_not_there_is_said_to_be_missing(visitor: Visitor) -> None:
    page = visitor.go("queues", "/", "no-such-queue")
    expect(page.get_by_role("alert").filter(has_text="This is not there")).to_be_visible()


def test_the_topology_is_drawn_with_dead_letters_and_alternates(visitor: Visitor) -> None:
    page = visitor.go("exchanges")
    graph = page.locator("warren-graph")
    for exchange in ("shop", "orders", "dead", "unrouted"):
        expect(graph.get_by_role("link", name=re.compile(f"^{exchange} .*exchange"))).to_be_visible()
    for queue in shop.QUEUES:
        expect(graph.get_by_role("link", name=re.compile(f"^{queue} .* in queue"))).to_be_visible()
    # Two bindings from shop to mail are one line.
    expect(graph.locator(".line.binding")).to_have_count(8)
    expect(graph.locator(".line.dead")).to_have_count(3)
    expect(graph.locator(".line.alternate")).to_have_count(1)
    assert overlaps(page) == []
    graph.get_by_role("link", name="graveyard").click()
    expect(visitor.heading("graveyard")).to_be_visible()


def overlaps(page: Page) -> list[list[str]]:
    """Pairs of nodes that cover each other."""
    found: list[list[str]] = page.evaluate(
        """() => {
        const boxes = [...document.querySelectorAll(".node rect")].map((rect) => rect.getBoundingClientRect());
        const names = [...document.querySelectorAll(".node title")].map((title) => title.textContent);
        const hits = [];
        boxes.forEach((one, i) => boxes.forEach((two, j) => {
            if (i < j && one.left < two.right && two.left < one.right && one.top < two.bottom && two.top < one.bottom)
                hits.push([names[i], names[j]]);
        }));
        return hits;
    }"""
    )
    return found


def test_a_dead_letter_exchange_that_is_not_there_is_drawn_as_missing(
    visitor: Visitor, channel: BlockingChannel
) -> None:
    channel.queue_declare("forlorn", arguments={"x-dead-letter-exchange": "nowhere"})
    page = visitor.go("exchanges")
    expect(page.locator(".node.missing")).to_contain_text("nowhere")
    channel.queue_delete("forlorn")
    expect(page.locator(".node.missing")).to_have_count(0)


def test_connections_are_shown_and_can_be_closed(visitor: Visitor, channel: BlockingChannel) -> None:
    page = visitor.go("connections")
    rows = page.get_by_role("region", name="Connections").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.filter(has_text="checkout service")).to_have_count(1)
    rows.filter(has_not_text="checkout service").get_by_role("button", name="Close").click()
    visitor.confirm("Close")
    with pytest.raises(Exception, match="Closed from the web page"):
        channel.connection.process_data_events(1)
    expect(rows).to_have_count(1)
    expect(page.get_by_role("region", name="Channels").locator("tbody tr")).to_have_count(1)


def test_every_view_opens_from_the_navigation(visitor: Visitor) -> None:
    visitor.go("definitions")
    for address, title in VIEWS.items():
        visitor.page.get_by_role("navigation", name="Views").get_by_role("link", name=title).click()
        expect(visitor.heading(title)).to_be_visible()
        expect(visitor.page).to_have_url(re.compile(f"#/{address}$"))
        expect(visitor.page).to_have_title(f"{title} · Warren")
        expect(visitor.heading(title)).to_be_focused()


def test_without_pipelines_the_view_says_so(visitor: Visitor) -> None:
    page = visitor.go("pipelines")
    expect(page.get_by_text("There are no pipelines.")).to_be_visible()


def test_definitions_are_downloaded(visitor: Visitor, api: Asking) -> None:
    page = visitor.go("definitions")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download definitions").click()
    exported = json.loads(download.value.path().read_text())
    assert exported["queues"] == api.get("/api/definitions").json["queues"]


def test_a_user_without_tags_for_it_is_told_so(browser: Browser, broker: Broker) -> None:
    broker.add_user("clerk", "clerk", ["management"])
    broker.set_permission("clerk")
    visitor = Visitor(browser, broker).enter("clerk", "clerk")
    expect(visitor.page.get_by_text("shown to users with the monitoring tag")).to_be_visible()
    visitor.go("access")
    expect(visitor.page.get_by_text("Users and permissions are shown to administrators.")).to_be_visible()
    visitor.go("definitions")
    expect(visitor.page.get_by_text("only administrators may export")).to_be_visible()
    visitor.leave()
