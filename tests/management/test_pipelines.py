"""What runners of pipelines report, and how the broker shows it: /api/pipelines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.management.asking import Asking
from warren import Broker

STATUS = {"state": "running", "lease": 10, "queries": [{"name": "totals", "rows_per_second": 12.5}]}


@pytest.fixture(autouse=True)
def _clean(api: Asking) -> Iterator[None]:
    yield
    for each in api.get("/api/pipelines").json:
        api.delete(f"/api/pipelines/%2F/{each['name']}")


def test_a_status_is_shown_as_it_was_put(api: Asking) -> None:
    assert api.put("/api/pipelines/%2F/orders", STATUS).status == 201
    assert api.put("/api/pipelines/%2F/orders", STATUS).status == 204
    (found,) = api.get("/api/pipelines").json
    assert found["queries"] == STATUS["queries"]
    assert (found["name"], found["vhost"], found["user"], found["state"]) == ("orders", "/", "guest", "running")
    assert api.get("/api/pipelines/%2F/orders").json == found


def test_a_runner_that_is_silent_past_its_lease_is_lost_until_it_speaks_again(broker: Broker, api: Asking) -> None:
    api.put("/api/pipelines/%2F/orders", STATUS)
    broker.advance(11)
    assert api.get("/api/pipelines/%2F/orders").json["state"] == "lost"
    api.put("/api/pipelines/%2F/orders", STATUS)
    assert api.get("/api/pipelines/%2F/orders").json["state"] == "running"


def test_one_that_said_that_it_stopped_is_not_lost(broker: Broker, api: Asking) -> None:
    api.put("/api/pipelines/%2F/orders", {**STATUS, "state": "stopped"})
    broker.advance(3600)
    assert api.get("/api/pipelines/%2F/orders").json["state"] == "stopped"


def test_a_deleted_one_is_gone(api: Asking) -> None:
    api.put("/api/pipelines/%2F/orders", STATUS)
    assert api.delete("/api/pipelines/%2F/orders").status == 204
    assert api.get("/api/pipelines/%2F/orders").status == 404
    assert api.delete("/api/pipelines/%2F/orders").status == 404


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "[{key_missing,state}]"),
        ({"state": "lost"}, "state must be one of starting, running, failed, stopped, finished"),
        ({"state": "running", "lease": 0}, "lease must be 1 to 3600 seconds"),
        ({"state": "running", "lease": True}, "lease must be 1 to 3600 seconds"),
        ({"state": "running", "queries": "x" * 300_000}, "a status has at most 262144 bytes"),
    ],
)
def test_a_wrong_status_is_refused(api: Asking, body: dict[str, object], reason: str) -> None:
    answer = api.put("/api/pipelines/%2F/orders", body)
    assert (answer.status, answer.json["reason"]) == (400, reason)


def test_pipelines_of_a_vhost_are_seen_by_those_who_may_use_it(broker: Broker, api: Asking) -> None:
    broker.add_vhost("closed")
    broker.add_user("visitor", "visitor", ["management"])
    broker.set_permission("visitor", "/")
    api.put("/api/pipelines/closed/secret", STATUS)
    api.put("/api/pipelines/%2F/orders", STATUS)
    visitor = Asking(broker, "visitor:visitor")
    assert [each["name"] for each in visitor.get("/api/pipelines").json] == ["orders"]
    assert visitor.put("/api/pipelines/closed/secret", STATUS).status == 401
    assert api.delete("/api/pipelines/closed/secret").status == 204


def test_beyond_a_thousand_the_one_that_was_silent_longest_goes(broker: Broker, api: Asking) -> None:
    from warren.management.pipeline_reports import COUNT_MAX, PipelineReport, Pipelines

    kept = Pipelines()
    for number in range(COUNT_MAX + 1):
        assert kept.put(PipelineReport("/", f"p{number}", "guest", number, 10, dict(STATUS)))
    assert len(kept.reports) == COUNT_MAX
    assert ("/", "p0") not in kept.reports


def test_an_exchange_that_is_a_pipeline_shows_how_that_is_doing(api: Asking) -> None:
    arguments = {"x-pipeline": "scores"}
    assert api.put("/api/exchanges/%2F/scoring", {"type": "x-pipeline", "arguments": arguments}).status == 201
    shown = {"name": "scores", "state": "unknown", "input": "pipeline.scoring"}
    assert api.get("/api/exchanges/%2F/scoring").json["pipeline"] == shown
    api.put("/api/pipelines/%2F/scores", STATUS)
    assert api.get("/api/exchanges/%2F/scoring").json["pipeline"] == {**shown, "state": "running"}
    assert api.get("/api/queues/%2F/pipeline.scoring").json["type"] == "stream"


def test_a_policy_may_name_the_pipeline_of_an_exchange(broker: Broker, api: Asking) -> None:
    assert api.put("/api/exchanges/%2F/guessing", {"type": "x-pipeline"}).status == 201
    assert api.get("/api/exchanges/%2F/guessing").json["pipeline"]["name"] == ""
    broker.set_policy("spark", "^guess", {"pipeline": "guesses"}, apply_to="exchanges")
    assert api.get("/api/exchanges/%2F/guessing").json["pipeline"]["name"] == "guesses"
