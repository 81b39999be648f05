"""The API's own description: every route is in it, and what the API does is what it says, whatever it is sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.management.asking import Asking
from warren import Broker
from warren.management import openapi
from warren.management.app import RESOURCES

DOCUMENT: Final = openapi.document([route for resource in RESOURCES for route in resource.ROUTES])
CHECKS: Final = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]
schema: Final = schemathesis.openapi.from_dict(DOCUMENT)


@pytest.fixture(scope="module")
def victim() -> Iterator[Broker]:
    """Its own broker: whatever can be deleted will be. A second administrator stays when guest is gone."""
    with Broker(http=True, login_failures_max=0) as broker:
        broker.add_user("keeper", "keeper", ["administrator"])
        broker.set_permission("keeper")
        yield broker


def test_the_document_is_served_without_a_login(broker: Broker) -> None:
    answer = Asking(broker, None).get("/api/openapi.json")
    assert answer.status == 200
    assert answer.json == DOCUMENT


def test_every_route_of_the_api_is_described() -> None:
    described = {(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods}
    routes = [route for resource in RESOURCES for route in resource.ROUTES if route.path.startswith("/api/")]
    served = {
        (route.path, method.lower())
        for route in routes
        for method in route.methods or ()
        if method != "HEAD" and route.path != "/api/openapi.json"
    }
    assert described == served
    identities = [each["operationId"] for methods in DOCUMENT["paths"].values() for each in methods.values()]
    assert len(identities) == len(set(identities))


@pytest.mark.long
@schema.parametrize()
@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_the_api_keeps_to_its_description(case: Any, victim: Broker) -> None:
    if "health/checks" in case.path or case.path == "/api/openapi.json":
        checks: list[Any] = [check for check in CHECKS if check is not not_a_server_error]
    else:
        checks = CHECKS
    response = case.call(base_url=victim.http_url, auth=("keeper", "keeper"))
    case.validate_response(response, checks=checks)
