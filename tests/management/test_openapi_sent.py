"""What the API does is what its description says, whatever it is sent."""

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

from tests.management.test_openapi import DOCUMENT
from warren import Broker

CHECKS: Final = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]
schema: Final = schemathesis.openapi.from_dict(DOCUMENT)


@pytest.fixture(scope="module")
def victim() -> Iterator[Broker]:
    """Its own broker: whatever can be deleted will be. A second administrator stays when guest is gone."""
    with Broker(http=True, login_failures_max=0) as broker:
        broker.add_user("keeper", "keeper", ["administrator"])
        broker.set_permission("keeper")
        yield broker


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
