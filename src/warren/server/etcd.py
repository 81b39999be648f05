"""A client of etcd's JSON gateway (/v3), as much of it as members of a cluster need. Blocking: used in a thread.

Safety rests on the transactions alone. The endpoints are tried one after another; a request that one did not answer may
have been carried out, and whoever asked is told that it is not known.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from typing import Any, Final
from urllib.parse import urlsplit

from warren.errors import WarrenError

DEFAULT_PORT: Final = 2379


class EtcdError(WarrenError):
    """No answer, or one that is none."""


class Etcd:
    def __init__(
        self, endpoints: list[str], cluster: str, timeout: float, context: ssl.SSLContext | None = None
    ) -> None:
        self.prefix = f"/warren/{cluster}/"
        # For those at https.
        self._context = context
        self._timeout = timeout
        self._endpoints = [_parsed(each) for each in endpoints]
        self._connection: http.client.HTTPConnection | None = None

    # -- what members ask ------------------------------------------------------------------------------------------

    def grant(self, seconds: int) -> int:
        return int(self._post("lease/grant", {"TTL": seconds})["ID"])

    def keep_alive(self, lease: int) -> bool:
        """False when it has ended."""
        result = self._post("lease/keepalive", {"ID": lease}).get("result", {})
        return int(result.get("TTL", 0)) > 0

    def revoke(self, lease: int) -> None:
        try:
            self._post("lease/revoke", {"ID": lease})
        except EtcdError as error:
            # One that has ended by itself is what was asked for.
            if "not found" not in str(error):
                raise

    def read(self) -> dict[str, dict[str, Any]]:
        """All keys of the cluster, by their names below its prefix: value, create_revision, mod_revision, lease."""
        answer = self._post("kv/range", {"key": _b64(self.prefix), "range_end": _b64(_after(self.prefix))})
        found: dict[str, dict[str, Any]] = {}
        for entry in answer.get("kvs", []):
            name = _text(entry["key"]).removeprefix(self.prefix)
            found[name] = {
                "value": json.loads(_text(entry["value"])),
                "create_revision": int(entry["create_revision"]),
                "mod_revision": int(entry["mod_revision"]),
                "lease": int(entry.get("lease", 0)),
            }
        return found

    def put(self, key: str, value: object, lease: int = 0) -> None:
        self._post("kv/put", self._put(key, value, lease))

    def delete(self, key: str) -> None:
        self._post("kv/deleterange", {"key": _b64(self.prefix + key)})

    def put_if(self, conditions: list[tuple[str, str, int]], key: str, value: object, lease: int = 0) -> int:
        """Put it where every condition holds: a key, CREATE or MOD, and its revision. Gives the revision that made, or
        0 when one did not hold."""
        compare = [
            {
                "key": _b64(self.prefix + name),
                "target": target,
                ("create_revision" if target == "CREATE" else "mod_revision"): str(revision),
            }
            for name, target, revision in conditions
        ]
        success = [{"requestPut": self._put(key, value, lease)}]
        answer = self._post("kv/txn", {"compare": compare, "success": success})
        return int(answer["header"]["revision"]) if answer.get("succeeded") else 0

    def _put(self, key: str, value: object, lease: int) -> dict[str, object]:
        body: dict[str, object] = {"key": _b64(self.prefix + key), "value": _b64(json.dumps(value))}
        if lease:
            body["lease"] = str(lease)
        return body

    # -- http ------------------------------------------------------------------------------------------------------

    def _post(self, path: str, body: dict[str, object]) -> dict[str, Any]:
        error: Exception | None = None
        for _ in range(len(self._endpoints)):
            try:
                return self._ask(path, json.dumps(body).encode())
            except (OSError, http.client.HTTPException) as problem:
                error = problem
                self.close()
                # The next one, from now on.
                self._endpoints.append(self._endpoints.pop(0))
                if path == "kv/txn":
                    # It may have been carried out: not twice.
                    break
        where = ", ".join(f"{host}:{port}" for _, host, port in self._endpoints)
        raise EtcdError(f"etcd at {where} does not answer: {error}")

    def _ask(self, path: str, data: bytes) -> dict[str, Any]:
        if self._connection is None:
            scheme, host, port = self._endpoints[0]
            if scheme == "https":
                self._connection = http.client.HTTPSConnection(host, port, timeout=self._timeout, context=self._context)
            else:
                self._connection = http.client.HTTPConnection(host, port, timeout=self._timeout)
        self._connection.request("POST", f"/v3/{path}", data, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        content = response.read()
        try:
            answer = json.loads(content.splitlines()[0])
        except (ValueError, IndexError) as error:
            raise EtcdError(f"etcd answers {response.status} {content[:80]!r}") from error
        if response.status != 200 or not isinstance(answer, dict) or "error" in answer:
            raise EtcdError(f"etcd refuses: {answer.get('error') if isinstance(answer, dict) else answer}")
        return answer

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _parsed(endpoint: str) -> tuple[str, str, int]:
    parts = urlsplit(endpoint if "://" in endpoint else f"http://{endpoint}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise WarrenError(f"etcd: '{endpoint}' is no address such as http://127.0.0.1:{DEFAULT_PORT}")
    return parts.scheme, parts.hostname, parts.port or DEFAULT_PORT


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _text(encoded: str) -> str:
    return base64.b64decode(encoded).decode()


def _after(prefix: str) -> str:
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
