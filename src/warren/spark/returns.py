"""What to do with messages that no queue takes (basic.return): fail the task, ignore them, or put them aside."""

from __future__ import annotations

import pyarrow as pa

from warren.amqp.deliveries import Deliveries
from warren.amqp.methods import BasicDeliver, BasicReturn
from warren.client.session import frame_of
from warren.errors import WarrenError
from warren.spark.columns import record_batch
from warren.spark.encode import LEFT_BEHIND
from warren.spark.folders import write_parquet


class Returns:
    def __init__(self) -> None:
        self.count = 0

    def take(self, method: BasicReturn, content: bytes) -> None:
        self.count += 1

    def finish(self) -> None:
        """All messages of the task have been answered."""


class IgnoredReturns(Returns):
    pass


class FailingReturns(Returns):
    def take(self, method: BasicReturn, content: bytes) -> None:
        raise WarrenError(
            f"exchange {method.exchange!r} has no queue for routing key {method.routing_key!r}: "
            f"{method.reply_code} {method.reply_text}; option onReturn says what else to do about that"
        )


class CollectedReturns(Returns):
    """One Parquet file for each task that had any, named after it: a repeated task writes the same file again."""

    def __init__(self, folder: str, identity: str) -> None:
        super().__init__()
        self._folder = folder
        self._name = f"returns-{identity.replace('/', '-')}.parquet"
        self._deliveries = Deliveries("")
        self._codes: list[int] = []
        self._texts: list[str] = []

    def take(self, method: BasicReturn, content: bytes) -> None:
        super().take(method, content)
        # A return is a delivery with another first frame.
        deliver = BasicDeliver(exchange=method.exchange, routing_key=method.routing_key)
        self._deliveries.take(frame_of(deliver) + content, 0, 1)
        self._codes.append(method.reply_code)
        self._texts.append(method.reply_text)

    def finish(self) -> None:
        if not self.count:
            return
        batch = record_batch(self._deliveries, "")
        table = pa.Table.from_batches([batch]).drop_columns(list(LEFT_BEHIND))
        table = table.append_column("reply_code", pa.array(self._codes, pa.int32()))
        table = table.append_column("reply_text", pa.array(self._texts, pa.string()))
        write_parquet(self._folder, self._name, table)
