"""The end of a turn: everything that happened in it takes effect outside.

A turn is what happens between two looks at the sockets. Its effects collect on the node (output, confirms, queues to
drain, definitions to record) and are carried out in the order that keeps every promise: what happened is written before
anything that speaks of it leaves, and an answer that says more, that it is durable, waits until it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.broker.publish.burial import bury_dead_letters

if TYPE_CHECKING:
    from warren.broker.node import Node


def flush(node: Node) -> None:
    node.begin_flush()
    try:
        _flush(node)
    finally:
        node.is_ending = False
    if node.dirty or node.answering:
        # A flushed socket lets consumers take more; that leaves in the next turn.
        node.wake()


def _flush(node: Node) -> None:
    node.handed_out = 0
    node.is_pressed = bool(node.next_turn)
    if node.draining_later:
        node.draining.update(node.draining_later)
        node.draining_later = {}
    release_synced(node)
    for errand in node.store.take_errands():
        node.errands.add(errand)
    node.errands.run()
    _settle(node)
    node.store.write()
    if node.next_turn:
        waiting, node.next_turn = node.next_turn, []
        for connection in waiting:
            connection.begin_turn()
    synced = node.store.synced
    if not node.dirty:
        return
    dirty, node.dirty = node.dirty, []
    if node.store.delivered_at > synced:
        for outlet in dirty:
            outlet.hold(node.store.delivered_at)
    for outlet in dirty:
        if outlet.held_until > synced:
            node.held[outlet] = True
        else:
            outlet.flush()
    _settle(node)


def _settle(node: Node) -> None:
    if node.dead_letters.waiting:
        bury_dead_letters(node, None)
    while node.draining:
        draining, node.draining = node.draining, {}
        for queue in draining:
            if not queue.deleted:
                node.monitor.drain(queue)
        if node.dead_letters.waiting:
            bury_dead_letters(node, None)
    if node.answering:
        answering, node.answering = node.answering, []
        for confirms in answering:
            confirms.flush()


def release_synced(node: Node) -> None:
    """Answer all that the store has made durable since, and pay back credit once it follows again."""
    awaiting = node.awaiting
    synced = node.store.synced
    while awaiting and awaiting[0].position <= synced:
        awaiting.popleft().reached()
    if node.held:
        for outlet in [outlet for outlet in node.held if outlet.held_until <= synced]:
            del node.held[outlet]
            node.dirty.append(outlet)
    for stream in node.store.take_committed():
        node.drain_soon(stream)
    if node.journeys.awaiting:
        node.journeys.confirm_synced(synced)
    if node.in_debt and not node.store.is_behind():
        in_debt, node.in_debt = node.in_debt, {}
        for credit in in_debt:
            credit.grant_all()
