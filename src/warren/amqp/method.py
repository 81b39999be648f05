"""What every method is: an id, a name, fields, and how they lie on the wire. The methods themselves: methods.py."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from warren.amqp.reader import ArgumentReader
from warren.amqp.writer import ArgumentWriter

Names: TypeAlias = tuple[str, ...]


class Method:
    # class << 16 | method
    id: ClassVar[int] = 0
    # As the spec prints it: "queue.declare".
    name: ClassVar[str] = ""
    # Names of the arguments, in the order of the wire.
    fields: ClassVar[Names] = ()

    @classmethod
    def decode(cls, reader: ArgumentReader) -> Method:
        """Read the arguments. Most answers have none, so this reads none."""
        return cls()

    def encode(self, writer: ArgumentWriter) -> None:
        """Write the arguments."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Method) and self.id == other.id and encode_method(self) == encode_method(other)

    def __repr__(self) -> str:
        arguments: list[str] = []
        for field in self.fields:
            value: object = getattr(self, field)
            arguments.append(f"{field}={value!r}")
        return f"{type(self).__name__}({', '.join(arguments)})"


def encode_method(method: Method) -> bytes:
    """The arguments alone: neither id nor frame."""
    writer = ArgumentWriter()
    method.encode(writer)
    return writer.getvalue()
