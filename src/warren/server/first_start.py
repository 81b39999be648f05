"""What a broker has before anybody declared anything: the default vhost and user, and a definitions file's content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from warren.broker.node import Node
from warren.broker.operate import administer
from warren.broker.rules.access import User
from warren.errors import WarrenError
from warren.server.passwords import Passwords


def make_defaults(node: Node, passwords: Passwords) -> None:
    settings = node.settings
    node.add_vhost(settings.default_vhost, "Default virtual host")
    if not settings.default_user:
        return
    algorithm, password_hash = passwords.hash(settings.default_password)
    administer.put_user(node, User(settings.default_user, password_hash, algorithm, ["administrator"]))
    administer.set_permission(node, settings.default_user, settings.default_vhost, ".*", ".*", ".*")


def read_definitions(path: str) -> dict[str, Any]:
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise WarrenError(f"cannot read the definitions {path}: {error.strerror}") from error
    except ValueError as error:
        raise WarrenError(f"{path} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise WarrenError(f"{path} holds no object")
    return document
