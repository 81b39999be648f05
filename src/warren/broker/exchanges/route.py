"""Step 4 of a publish: from an exchange and an envelope to the queues, each once.

Exchanges lead to exchanges, by bindings and as alternates, in circles too: every exchange is asked at most once.
"""

from __future__ import annotations

from warren.broker.exchanges.base import Destination, Envelope, Exchange


def route(exchanges: dict[str, Exchange], exchange: Exchange, envelope: Envelope) -> list[Destination]:
    """The queues, in the order in which they were found; callers must not change the list.

    `exchanges` are those of the exchange's vhost, by name.
    """
    first = destinations(exchange, envelope)
    if not first:
        return []
    if len(first) == 1 and not first[0].is_exchange:
        return first
    if not exchange.decorators and not exchange.leads_to_exchanges():
        # In one step, however many they are.
        return list(dict.fromkeys(first))
    queues: dict[Destination, None] = {}
    waiting = _sort_out(first, queues)
    if not waiting:
        return list(queues)
    seen = {exchange.name}
    # A list that grows while it is walked: first found, first asked.
    for name in waiting:
        # The default exchange follows no binding and is nobody's alternate: "" leads nowhere from here.
        if name in seen or not name:
            continue
        seen.add(name)
        reached = exchanges.get(name)
        # Missing: an alternate exchange need not exist.
        if reached is not None:
            waiting.extend(_sort_out(destinations(reached, envelope), queues))
    return list(queues)


def destinations(exchange: Exchange, envelope: Envelope) -> list[Destination]:
    """What one exchange leads to, the exchanges among them not yet followed; may hold one more than once.

    The alternate joins when the type itself found nothing: what decorators add does not count, and a binding
    to an exchange counts even if that one leads nowhere.
    """
    found = exchange.match(envelope)
    if found and not exchange.decorators:
        return found
    # A copy, since match() may have handed out its own list.
    found = found.copy()
    if not found and exchange.alternate is not None:
        found.append(Destination(exchange.vhost, exchange.alternate, True))
    for decorator in exchange.decorators:
        found.extend(decorator.route(exchange, envelope))
    return found


def is_cacheable(exchanges: dict[str, Exchange], exchange: Exchange) -> bool:
    """Whether equal keys lead to equal queues until a binding, exchange, queue, policy or decorator changes."""
    if not exchange.leads_to_exchanges():
        return not exchange.looks_beyond_keys and not exchange.decorators
    seen = {exchange.name}
    waiting = [exchange]
    for reached in waiting:
        if reached.looks_beyond_keys or reached.decorators:
            return False
        for name in reached.next_exchanges():
            following = exchanges.get(name)
            if following is not None and name not in seen:
                seen.add(name)
                waiting.append(following)
    return True


def _sort_out(found: list[Destination], queues: dict[Destination, None]) -> list[str]:
    """Put the queues where they belong; return the names of the exchanges."""
    names: list[str] = []
    for destination in found:
        if destination.is_exchange:
            names.append(destination.name)
        else:
            queues[destination] = None
    return names
