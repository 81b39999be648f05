"""How fast counters grow, and what is remembered for it."""

from __future__ import annotations

from warren.management.rates import SAMPLES_MAX, History, Rates

KEY = ("queue", "q")


def test_a_rate_is_measured_against_a_sample_some_seconds_old() -> None:
    rates = Rates()
    for second in range(21):
        rate = rates.rates(KEY, {"n": second * 10}, second * 1000)["n"]
    assert rate == 10.0


def test_without_an_earlier_question_there_is_no_rate() -> None:
    assert Rates().rates(KEY, {"n": 1000}, 5000)["n"] == 0.0


def test_a_history_has_the_latest_first_and_what_was_last_known_between() -> None:
    rates = Rates()
    history = History(20_000, 5_000)
    for second, value in ((100, 10), (105, 20), (115, 40)):
        details = rates.details(KEY, {"publish": value}, second * 1000, history)["publish_details"]
    assert [each["sample"] for each in details["samples"]] == [40, 20, 20, 10, 0]
    assert details["samples"][0]["timestamp"] == 115_000
    assert details["avg_rate"] == 2.0


def test_what_is_remembered_is_bounded() -> None:
    rates = Rates()
    for second in range(3000):
        rates.details(KEY, {"publish": second}, second * 1000, History(60_000, 5_000))
        rates.details(("gone", str(second)), {"publish": 1}, second * 1000)
    assert len(rates._histories[(*KEY, "publish")]) == SAMPLES_MAX
    assert len(rates._samples) < 2000
