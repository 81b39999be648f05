"""/ and /static: the web page. Its files are sent as they lie in static/, with headers that let nothing else in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FOLDER: Final = Path(__file__).parent / "static"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
# Nothing inline, nothing from elsewhere. data: is for the images that a style sheet may hold.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Asked for again each time, and answered in a few bytes when it is the same: a new version is seen at once.
    "cache-control": "no-cache",
}


@dataclass(frozen=True)
class File:
    content: bytes
    type: str
    tag: str


@cache
def files() -> dict[str, File]:
    """By path. Read when first asked for: a broker inside a test has no use for them."""
    found = [path for path in sorted(FOLDER.rglob("*")) if path.suffix in _TYPES]
    return {path.relative_to(FOLDER).as_posix(): read(path) for path in found}


def read(path: Path) -> File:
    content = path.read_bytes()
    return File(content, _TYPES[path.suffix], f'"{sha256(content).hexdigest()[:32]}"')


async def show(request: Request) -> Response:
    return answer(request, "index.html")


async def show_file(request: Request) -> Response:
    return answer(request, request.path_params["path"])


def answer(request: Request, path: str) -> Response:
    # Looked up among the names that exist: a path with dots in it leads nowhere.
    file = files().get(path)
    if file is None:
        raise HTTPException(404)
    headers = {**_HEADERS, "etag": file.tag}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.type, headers=headers)


ROUTES: Final = [Route("/", show), Route("/static/{path:path}", show_file)]
