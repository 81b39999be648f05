"""The API's own description: every route is in it."""

from __future__ import annotations

from typing import Final

from tests.management.asking import Asking
from warren import Broker
from warren.management import openapi
from warren.management.app import RESOURCES

DOCUMENT: Final = openapi.document([route for resource in RESOURCES for route in resource.ROUTES])


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
