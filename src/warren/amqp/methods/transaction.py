"""Confirm and tx: the two ways in which a channel answers for what was published on it."""

from __future__ import annotations

from typing import ClassVar

from warren.amqp import constants
from warren.amqp.methods.base import Method, Names
from warren.amqp.reader import ArgumentReader
from warren.amqp.writer import ArgumentWriter


class ConfirmSelect(Method):
    id: ClassVar[int] = constants.CONFIRM_SELECT
    name: ClassVar[str] = "confirm.select"
    fields: ClassVar[Names] = ("no_wait",)

    def __init__(self, no_wait: bool = False) -> None:
        self.no_wait = no_wait

    @staticmethod
    def decode(reader: ArgumentReader) -> ConfirmSelect:
        return ConfirmSelect(reader.octet() & 1 != 0)

    def encode(self, writer: ArgumentWriter) -> None:
        writer.octet(self.no_wait)


class ConfirmSelectOk(Method):
    id: ClassVar[int] = constants.CONFIRM_SELECT_OK
    name: ClassVar[str] = "confirm.select-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> ConfirmSelectOk:
        return ConfirmSelectOk()


class TxSelect(Method):
    id: ClassVar[int] = constants.TX_SELECT
    name: ClassVar[str] = "tx.select"

    @staticmethod
    def decode(reader: ArgumentReader) -> TxSelect:
        return TxSelect()


class TxSelectOk(Method):
    id: ClassVar[int] = constants.TX_SELECT_OK
    name: ClassVar[str] = "tx.select-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> TxSelectOk:
        return TxSelectOk()


class TxCommit(Method):
    id: ClassVar[int] = constants.TX_COMMIT
    name: ClassVar[str] = "tx.commit"

    @staticmethod
    def decode(reader: ArgumentReader) -> TxCommit:
        return TxCommit()


class TxCommitOk(Method):
    id: ClassVar[int] = constants.TX_COMMIT_OK
    name: ClassVar[str] = "tx.commit-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> TxCommitOk:
        return TxCommitOk()


class TxRollback(Method):
    id: ClassVar[int] = constants.TX_ROLLBACK
    name: ClassVar[str] = "tx.rollback"

    @staticmethod
    def decode(reader: ArgumentReader) -> TxRollback:
        return TxRollback()


class TxRollbackOk(Method):
    id: ClassVar[int] = constants.TX_ROLLBACK_OK
    name: ClassVar[str] = "tx.rollback-ok"

    @staticmethod
    def decode(reader: ArgumentReader) -> TxRollbackOk:
        return TxRollbackOk()
