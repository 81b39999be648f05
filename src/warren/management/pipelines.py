"""/api/pipelines: what runners of pipelines last said of themselves.

A runner puts its status again and again, each time with a lease; one that has not come back in time is shown as lost.
Kept in memory only: after a restart of the broker the runners, which are still there, say it anew.
"""

from __future__ import annotations

import json
from typing import Final

from starlette.responses import Response

from warren.management.calls import Call, Needs, done, found, route
from warren.management.pipeline_reports import PipelineReport
from warren.management.refusals import bad_request

STATES: Final = ("starting", "running", "failed", "stopped", "finished")
STATUS_MAX: Final = 256 * 1024
NAME_MAX: Final = 255
DEFAULT_LEASE: Final = 15
LEASE_MAX: Final = 3600


async def list_pipelines(call: Call) -> Response:
    vhosts = {vhost.name for vhost in call.vhosts()}
    return await call.items([report.item(call.now) for report in call.context.pipelines.of_vhosts(vhosts)])


async def show(call: Call) -> Response:
    return call.item(_found(call).item(call.now))


async def put(call: Call) -> Response:
    vhost, name = call.vhost_to_use(), call.path("name")
    body = call.required(await call.body(), "state")
    if not 0 < len(name.encode()) <= NAME_MAX:
        raise bad_request(f"a pipeline's name has 1 to {NAME_MAX} bytes")
    if body["state"] not in STATES:
        raise bad_request(f"state must be one of {', '.join(STATES)}")
    lease = body.pop("lease", DEFAULT_LEASE)
    if not isinstance(lease, int) or isinstance(lease, bool) or not 1 <= lease <= LEASE_MAX:
        raise bad_request(f"lease must be 1 to {LEASE_MAX} seconds")
    if len(json.dumps(body)) > STATUS_MAX:
        raise bad_request(f"a status has at most {STATUS_MAX} bytes")
    return done(call.context.pipelines.put(PipelineReport(vhost.name, name, call.user.name, call.now, lease, body)))


async def delete(call: Call) -> Response:
    report = _found(call)
    del call.context.pipelines.reports[report.vhost, report.name]
    return done()


def _found(call: Call) -> PipelineReport:
    return found(call.context.pipelines.reports.get((call.vhost().name, call.path("name"))))


ROUTES: Final = [
    route("/api/pipelines", Needs.MANAGEMENT, GET=list_pipelines),
    route("/api/pipelines/{vhost}", Needs.MANAGEMENT, GET=list_pipelines),
    route("/api/pipelines/{vhost}/{name}", Needs.MANAGEMENT, GET=show, PUT=put, DELETE=delete),
]
