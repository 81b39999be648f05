"""Takes the pictures of docs/web-page.md anew, of a live broker: `make screenshots`, or this module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pika
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from tests.page import shop
from tests.page.chromium import chromium, why_not
from tests.page.visitor import PHONE, Theme, Visitor
from warren import Broker

FOLDER: Final = Path(__file__).parents[2] / "docs" / "images"
SIZE: Final = (1200, 800)
# Long enough for a chart to have a shape.
WARM_UP_MS: Final = 45_000
BYTES_MAX: Final = 150_000


def main() -> None:
    reason = why_not()
    if reason is not None:
        raise SystemExit(reason)
    FOLDER.mkdir(exist_ok=True)
    with shop_open() as broker, chromium() as browser:
        take_by_day(browser, broker)
        take_by_night(browser, broker)
    for path in sorted(FOLDER.glob("page-*.png")):
        print(f"{path.stat().st_size:7} {path.name}")  # noqa: T201 - what was made


@contextmanager
def shop_open() -> Iterator[Broker]:
    with Broker(http=True, cluster_name="shop") as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            shop.declare(channel)
            stream = {"x-queue-type": "stream", "x-max-age": "7D", "x-max-length-bytes": 2_000_000_000}
            channel.queue_declare("events", durable=True, arguments=stream)
            channel.queue_bind("events", "shop", "order.#")
        broker.set_policy("keep-it-short", "^orders\\.", {"max-length": 50_000, "overflow": "reject-publish"})
        with shop.traffic(broker):
            yield broker


def take_by_day(browser: Browser, broker: Broker) -> None:
    with visit(browser, broker, SIZE, "light") as visitor:
        visitor.page.wait_for_timeout(WARM_UP_MS)
        take(visitor, "overview", "overview")
        take(visitor, "queues", "queues")
        take(visitor, "topology", "exchanges", full=False)
        take(visitor, "messages", "queues", "/", "lost", then=peek, region="Messages")
        take(visitor, "purge", "queues", "/", "audit", then=ask_for_a_purge, full=False)
        visitor.page.keyboard.press("Escape")
        take(visitor, "streams", "streams", full=False)
        take_journey(visitor, broker)


def take_journey(visitor: Visitor, broker: Broker) -> None:
    properties = pika.BasicProperties(delivery_mode=2, message_id="order-4711", headers={"x-warren-trace": True})
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("shop", "order.paid", b'{"order": 4711}', properties)
    number = broker.call(lambda node: node.journeys.kept[-1].number)
    take(visitor, "journey", "journey", str(number))


def take_by_night(browser: Browser, broker: Broker) -> None:
    with visit(browser, broker, SIZE, "dark") as visitor:
        visitor.page.wait_for_timeout(WARM_UP_MS)
        take(visitor, "overview-dark", "overview")
    with visit(browser, broker, PHONE, "dark") as visitor:
        take(visitor, "phone", "queues", full=False)


@contextmanager
def visit(browser: Browser, broker: Broker, size: tuple[int, int], theme: Theme) -> Iterator[Visitor]:
    visitor = Visitor(browser, broker, size, theme).enter()
    yield visitor
    visitor.leave()


def take(
    visitor: Visitor,
    name: str,
    *address: str,
    full: bool = True,
    then: Callable[[Page], None] | None = None,
    region: str = "",
) -> None:
    page = visitor.go(*address)
    expect(page.locator("main :is(td, .tile b, .node)").first).to_be_visible()
    if then is not None:
        then(page)
    # Rates need a second answer.
    page.wait_for_timeout(2500)
    page.mouse.move(0, 0)
    path = FOLDER / f"page-{name}.png"
    if region:
        # High enough that nothing has to be scrolled under the header.
        page.set_viewport_size({"width": SIZE[0], "height": 3 * SIZE[1]})
        page.get_by_role("region", name=region).screenshot(path=path)
        page.set_viewport_size({"width": SIZE[0], "height": SIZE[1]})
    else:
        page.screenshot(path=path, full_page=full)
    make_small(path)


def make_small(path: Path) -> None:
    """With a palette if need be, which a page of few colours hardly shows."""
    with Image.open(path) as picture:
        plain = picture.convert("RGB")
        plain.save(path, optimize=True)
        if path.stat().st_size >= BYTES_MAX:
            plain.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    assert path.stat().st_size < BYTES_MAX, f"{path.name} has {path.stat().st_size} bytes"


def peek(page: Page) -> None:
    page.get_by_label("Header").fill("tenant=acme")
    page.get_by_role("button", name="Peek").click()
    expect(page.locator(".messages li").first).to_be_visible()
    page.locator("summary").first.click()
    page.locator(".messages li:nth-child(n + 4)").evaluate_all("all => all.forEach((each) => each.remove())")


def ask_for_a_purge(page: Page) -> None:
    page.get_by_role("button", name="Purge").click()
    expect(page.get_by_role("dialog")).to_be_visible()


if __name__ == "__main__":
    main()
