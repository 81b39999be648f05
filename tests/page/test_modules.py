"""The page's modules that show nothing: layout of graphs, rates from counters, polling, figures in words."""

from __future__ import annotations

import pytest

from tests.page.visitor import Visitor

# Random graphs with cycles, loops and loose nodes. Returns what is wrong with any of them.
_LAYOUT = """async () => {
    const {layOut} = await import("/static/parts/layout.js");
    let seed = 7;
    const random = (below) => (seed = (seed * 48271) % 2147483647) % below;
    const wrong = [];
    for (let round = 0; round < 150; round += 1) {
        const count = 1 + random(40);
        const nodes = Array.from({length: count}, (_, id) => ({id, width: 100, height: 40}));
        const edges = Array.from({length: random(60)}, () => ({from: random(count), to: random(count)}));
        const size = layOut(nodes, edges);
        for (const one of nodes) {
            if (!(one.x >= 0 && one.y >= 0 && one.x + 100 <= size.width && one.y + 40 <= size.height + 0.01))
                wrong.push(`${round}: a node is outside`);
            for (const two of nodes)
                if (one.id < two.id && Math.abs(one.x - two.x) < 100 && Math.abs(one.y - two.y) < 40)
                    wrong.push(`${round}: two nodes cover each other`);
        }
        for (const edge of edges)
            if (!edge.isBack && nodes[edge.from].x >= nodes[edge.to].x) wrong.push(`${round}: an edge leads left`);
        const again = layOut(nodes.map((node) => ({...node})), edges.map(({from, to}) => ({from, to})));
        if (JSON.stringify(again) !== JSON.stringify(size)) wrong.push(`${round}: another picture of the same`);
    }
    return wrong;
}"""
_RATES = """async () => {
    const {Growth, Series, waitingTime} = await import("/static/history.js");
    const growth = new Growth();
    const first = growth.rates(10, {a: 100});
    const second = growth.rates(12, {a: 150});
    const restarted = growth.rates(13, {a: 5});
    const series = new Series(["a"]);
    for (let second = 0; second < 2000; second += 1) series.add(second, {a: second});
    const waits = [waitingTime(0, 0), waitingTime(10, 0), waitingTime(100, 50)];
    return [first.a, second.a, restarted.a, series.times.length, series.last("a"), waits];
}"""
# How often it asks within two and a half seconds, when answers take so long.
_POLLS = """async (milliseconds) => {
    const {Poller} = await import("/static/poll.js");
    let asked = 0;
    const poller = new Poller(() => {
        asked += 1;
        return new Promise((resolve) => setTimeout(resolve, milliseconds));
    });
    poller.start();
    await new Promise((resolve) => setTimeout(resolve, 2500));
    poller.stop();
    return asked;
}"""
_WORDS = """async ([name, value]) => {
    const format = await import("/static/format.js");
    return format[name](value);
}"""


def test_a_graph_is_laid_out_from_left_to_right_without_overlaps(visitor: Visitor) -> None:
    assert visitor.page.evaluate(_LAYOUT) == []


def test_rates_come_from_two_counts_and_a_restart_is_no_rate(visitor: Visitor) -> None:
    assert visitor.page.evaluate(_RATES) == [None, 25, None, 601, 1999, [0, None, 2000]]


def test_latency_is_the_latest_sample_or_the_one_that_waits(visitor: Visitor) -> None:
    measured = """async () => {
        const {History} = await import("/static/history.js");
        const own = new History();
        const answers = [[0, null, null], [1, 5, null], [1, 5, null], [1, 5, 800], [3, 7, 900]];
        return answers.map(([samples, last_ms, waiting_ms]) => own.measured({samples, last_ms, waiting_ms}));
    }"""
    assert visitor.page.evaluate(measured) == [None, 5, None, 800, 7]


def test_slow_answers_are_asked_for_less_often(visitor: Visitor) -> None:
    assert visitor.page.evaluate(_POLLS, 300) == 1
    assert visitor.page.evaluate(_POLLS, 1) in (2, 3)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("number", 1234567, "1,234,567"),
        ("number", None, "\u2013"),
        ("compact", 12345, "12.3K"),
        ("compact", 0.25, "0.3"),
        ("rate", 3.14, "3.1/s"),
        ("bytes", 1536, "1.5 KiB"),
        ("bytes", 5, "5 B"),
        ("milliseconds", 0.0123, "12 \u00b5s"),
        ("milliseconds", 61_000, "1 min 1 s"),
        ("shortTime", 90_000, "1.5 min"),
        ("duration", 90_061_000, "1 d 1 h"),
        ("plain", {"a": [1]}, '{"a":[1]}'),
        ("exchangeName", "", "(default)"),
    ],
)
def test_figures_are_said_in_words(visitor: Visitor, name: str, value: object, text: str) -> None:
    assert visitor.page.evaluate(_WORDS, [name, value]) == text
