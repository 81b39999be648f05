"""What the API answers when it cannot do as asked: always JSON with `error` and `reason`, as RabbitMQ's."""

from __future__ import annotations

from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from warren.errors import AmqpError, WarrenError

REALM: Final = 'Basic realm="RabbitMQ Management"'


class Refusal(Exception):
    """`reason` is a text, or where RabbitMQ does so a list of a word and what it is about."""

    def __init__(self, status: int, error: str, reason: str | list[object]) -> None:
        super().__init__(reason)
        self.status = status
        self.error = error
        self.reason = reason


def bad_request(reason: str | list[object]) -> Refusal:
    return Refusal(400, "bad_request", reason)


def not_found() -> Refusal:
    return Refusal(404, "Object Not Found", "Not Found")


def not_authorised(reason: str) -> Refusal:
    return Refusal(401, "not_authorised", reason)


def response_of(status: int, error: str, reason: str | list[object]) -> Response:
    headers = {"WWW-Authenticate": REALM} if status == 401 else None
    return JSONResponse({"error": error, "reason": reason}, status, headers)


async def answer_refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return response_of(error.status, error.error, error.reason)


async def answer_user_error(_: Request, error: Exception) -> Response:
    return response_of(400, "bad_request", str(error))


async def answer_amqp_error(_: Request, error: Exception) -> Response:
    """What a client would have read in a channel.close."""
    assert isinstance(error, AmqpError)
    if error.code == 403:
        return response_of(401, "not_authorised", "Access refused.")
    if error.code == 404:
        return response_of(404, "Object Not Found", "Not Found")
    return response_of(400, "bad_request", error.explanation)


async def answer_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    names = {404: ("Object Not Found", "Not Found"), 405: ("Method Not Allowed", "Method Not Allowed")}
    name, reason = names.get(error.status_code, ("error", error.detail))
    response = response_of(error.status_code, name, reason)
    # With 405: which methods the path knows.
    response.headers.update(error.headers or {})
    return response


HANDLERS: Final = {
    Refusal: answer_refusal,
    WarrenError: answer_user_error,
    AmqpError: answer_amqp_error,
    HTTPException: answer_http_error,
}
