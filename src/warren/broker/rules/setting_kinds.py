"""The kinds of values that settings of queues take: what an argument is held to, what a policy, and how people read it.

queue_settings.py says which setting is of which kind.
"""

from __future__ import annotations

from typing import Final

from warren.amqp.constants import MAX_EXPIRY_MS
from warren.amqp.fields import Field, type_name

# Larger numbers would not survive JSON in other tools, and would overflow when a clock is added to them.
NUMBER_MAX: Final = 2**53 - 1
# Of a short string, in bytes.
SHORT_MAX: Final = 255

_INTEGER_TAGS: Final = "bBsuIilL"


def is_integer(field: Field) -> bool:
    return field.tag in _INTEGER_TAGS


def integer(field: Field) -> int:
    value = field.value
    return value if isinstance(value, int) else 0


def integer_problem(field: Field) -> str:
    return "" if is_integer(field) else f'"expected integer, got {type_name(field.tag)}"'


def _type_problem(field: Field) -> str:
    return f"{{unacceptable_type,{type_name(field.tag)}}}"


class Kind:
    """What values a setting takes. Anything, unless a kind says otherwise."""

    def problem(self, field: Field) -> str:
        """Of an argument: empty when the value will do, else the reason in RabbitMQ's (Erlang's) words."""
        return ""

    def takes(self, value: object) -> bool:
        """Of a policy."""
        return True

    def text(self) -> str:
        """For people."""
        return "anything"


class Number(Kind):
    """An argument is only kept from being negative, and some from being 0; the range is that of policies."""

    def __init__(self, least: int = 0, most: int = NUMBER_MAX, argument_least: int = 0) -> None:
        self.least = least
        self.most = most
        self.argument_least = argument_least

    def problem(self, field: Field) -> str:
        problem = integer_problem(field)
        if problem or integer(field) >= self.argument_least or self.least < 0:
            return problem
        return "{value_zero,0}" if integer(field) == 0 else f"{{value_negative,{integer(field)}}}"

    def takes(self, value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most

    def text(self) -> str:
        if self.most != NUMBER_MAX:
            return f"{self.least} to {self.most}"
        return "a whole number" if self.least < 0 else f"a number from {max(self.least, self.argument_least)}"


class Bounded(Number):
    """The upper end holds for arguments too."""

    def problem(self, field: Field) -> str:
        problem = super().problem(field)
        return problem if problem or integer(field) <= self.most else f"{{max_value_exceeded,{integer(field)}}}"


class Milliseconds(Number):
    def __init__(self, least: int = 0, argument_least: int = 0) -> None:
        super().__init__(least, argument_least=argument_least)

    def problem(self, field: Field) -> str:
        problem = super().problem(field)
        is_too_large = not problem and integer(field) > MAX_EXPIRY_MS
        return f"{{value_too_large,{integer(field)}}}" if is_too_large else problem

    def text(self) -> str:
        return f"milliseconds from {self.least}"


class Version(Number):
    def problem(self, field: Field) -> str:
        problem = integer_problem(field)
        is_known = self.least <= integer(field) <= self.most
        return problem if problem or is_known else f"\"unsupported queue version '{integer(field)}'\""


class Flag(Kind):
    def problem(self, field: Field) -> str:
        return "" if field.tag == "t" else _type_problem(field)

    def takes(self, value: object) -> bool:
        return isinstance(value, bool)

    def text(self) -> str:
        return "true or false"


class Text(Kind):
    def problem(self, field: Field) -> str:
        value = field.value
        if field.tag != "S" or not isinstance(value, str):
            return _type_problem(field)
        return self.word_problem(value)

    def word_problem(self, value: str) -> str:
        return ""

    def takes(self, value: object) -> bool:
        return isinstance(value, str)

    def text(self) -> str:
        return "text"


class ShortText(Text):
    """What becomes a short string on the wire, a name or a key: longer than that it could never be sent."""

    def word_problem(self, value: str) -> str:
        return "" if is_short(value) else f"{{too_long,{len(value)}}}"

    def takes(self, value: object) -> bool:
        return isinstance(value, str) and is_short(value)

    def text(self) -> str:
        return f"text of at most {SHORT_MAX} bytes"


def is_short(text: str) -> bool:
    return len(text.encode("utf-8", "surrogateescape")) <= SHORT_MAX


class Choice(Text):
    """`refusal` may name the word as %s. Without one, an argument takes any word."""

    def __init__(self, words: tuple[str, ...], refusal: str = "") -> None:
        self.words = words
        self.refusal = refusal

    def word_problem(self, value: str) -> str:
        return "" if value in self.words else self.refusal.replace("%s", value)

    def takes(self, value: object) -> bool:
        return isinstance(value, str) and value in self.words

    def text(self) -> str:
        return ", ".join([f"`{word}`" for word in self.words])


class Age(Text):
    def word_problem(self, value: str) -> str:
        return "" if age_in_ms(value) > 0 else "invalid_max_age"

    def takes(self, value: object) -> bool:
        return isinstance(value, str) and age_in_ms(value) > 0

    def text(self) -> str:
        return "an age such as `7D` or `12h`"


def age_in_ms(text: str) -> int:
    """7D, 12h, ... in milliseconds; 0 when it is no age."""
    seconds = {"Y": 365 * 86400, "M": 30 * 86400, "D": 86400, "h": 3600, "m": 60, "s": 1}.get(text[-1:], 0)
    digits = text[:-1]
    if not digits.isascii() or not digits.isdigit() or len(digits) > 10:
        return 0
    return int(digits) * seconds * 1000
