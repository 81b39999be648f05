"""What every method is: an id, a name, fields that may be changed in place, and how they lie on the wire."""

from __future__ import annotations

from typing import ClassVar

from warren.amqp.reader import ArgumentReader
from warren.amqp.writer import ArgumentWriter


class Method:
    # class << 16 | method
    id: ClassVar[int] = 0
    # As the spec prints it: "queue.declare".
    name: ClassVar[str] = ""

    @staticmethod
    def decode(reader: ArgumentReader) -> Method:
        raise NotImplementedError

    def encode(self, writer: ArgumentWriter) -> None:
        raise NotImplementedError
