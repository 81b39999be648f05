"""The columns of a message, as Spark names them."""

from __future__ import annotations

from typing import Final

# In the order of the wire. The fourteenth, headers, has columns of its own.
PROPERTIES: Final = (
    ("content_type", "string"),
    ("content_encoding", "string"),
    ("delivery_mode", "int"),
    ("priority", "int"),
    ("correlation_id", "string"),
    ("reply_to", "string"),
    ("expiration", "string"),
    ("message_id", "string"),
    ("timestamp", "bigint"),
    ("type", "string"),
    ("user_id", "string"),
    ("app_id", "string"),
    ("cluster_id", "string"),
)
PROPERTY_NAMES: Final = tuple(name for name, _ in PROPERTIES)
_PROPERTIES_STRUCT: Final = f"struct<{','.join(f'{name}:{kind}' for name, kind in PROPERTIES)}>"
COLUMNS: Final = (
    ("body", "binary"),
    ("exchange", "string"),
    ("routing_key", "string"),
    ("queue", "string"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("redelivered", "boolean"),
    ("properties", _PROPERTIES_STRUCT),
    ("headers", "map<string,string>"),
    ("headers_raw", "binary"),
    ("arrived_at", "timestamp"),
)
DDL: Final = ", ".join(f"{name} {kind}" for name, kind in COLUMNS)
