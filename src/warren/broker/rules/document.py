"""A JSON document read with care: whatever is wrong with it is said together with its place."""

from __future__ import annotations

from base64 import b64decode
from typing import Final

from warren.amqp.fields import Table, table_of
from warren.amqp.tables import decode_table
from warren.errors import AmqpError, WarrenError

# Names travel as short strings.
NAME_BYTES_MAX: Final = 255
_MISSING: Final = "is missing"


class DefinitionsError(WarrenError):
    """definitions: queues[3].vhost: no vhost 'x'"""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"definitions: {place}: {reason}" if place else f"definitions: {reason}")


class Item:
    """One object of the document, and where it stands."""

    def __init__(self, place: str, fields: dict[str, object]) -> None:
        self.place = place
        self.fields = fields

    def error(self, key: str, reason: str) -> DefinitionsError:
        return DefinitionsError(f"{self.place}.{key}", reason)

    def refused(self, reason: str) -> DefinitionsError:
        """Not one field is wrong, but the whole."""
        return DefinitionsError(self.place, reason)

    def text(self, key: str) -> str:
        value = self.fields.get(key)
        if value is None:
            raise self.error(key, _MISSING)
        if not isinstance(value, str):
            raise self.error(key, "must be a string")
        return value

    def texts(self, *keys: str) -> list[str]:
        return [self.text(key) for key in keys]

    def text_or(self, key: str, default: str) -> str:
        return default if self.fields.get(key) is None else self.text(key)

    def name(self, key: str) -> str:
        value = self.text(key)
        if len(value.encode(errors="surrogateescape")) > NAME_BYTES_MAX:
            raise self.error(key, f"is longer than {NAME_BYTES_MAX} bytes")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.fields.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(key, "must be true or false")
        return value

    def object(self, key: str) -> dict[str, object]:
        """Empty when it is not there. RabbitMQ writes an empty one as [] at times."""
        value = self.fields.get(key)
        if value is None or value == []:
            return {}
        if not isinstance(value, dict):
            raise self.error(key, "must be an object")
        return fields_of(value)

    def words(self, key: str) -> list[str]:
        """A list of strings, or one string of them with commas between."""
        value = self.fields.get(key)
        if value is None:
            return []
        if isinstance(value, str):
            return [word.strip() for word in value.split(",") if word.strip()]
        if not isinstance(value, list):
            raise self.error(key, "must be a list of strings")
        words: list[str] = []
        for at, word in enumerate(value):
            if not isinstance(word, str):
                raise self.error(f"{key}[{at}]", "must be a string")
            words.append(word.strip())
        return words

    def table(self, key: str) -> Table:
        """AMQP arguments. What was recorded stands beside them in its wire form, which keeps the types."""
        wire = self.fields.get(f"{key}_wire")
        try:
            if isinstance(wire, str):
                data = b64decode(wire)
                return decode_table(data, 4, len(data))
            return table_of(self.object(key))
        except AmqpError as error:
            raise self.error(key, error.explanation) from None


def values_in(document: dict[str, object], section: str) -> list[object]:
    """One list of the document; nothing when the list is not there."""
    values = document.get(section)
    if values is None:
        return []
    if not isinstance(values, list):
        raise DefinitionsError(section, "must be a list")
    return values


def item_of(section: str, at: int, value: object) -> Item:
    if not isinstance(value, dict):
        raise DefinitionsError(f"{section}[{at}]", "must be an object")
    return Item(f"{section}[{at}]", fields_of(value))


def fields_of(value: dict[object, object]) -> dict[str, object]:
    return {str(key): item for key, item in value.items()}
