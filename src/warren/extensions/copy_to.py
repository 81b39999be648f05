"""An exchange decorator that copies what is published to some exchanges to another one. A policy says which.

In warren.toml: exchange_decorators = ["warren.extensions.copy_to:CopyTo"]
A policy for exchanges with {"copy-to": "audit"} then copies everything to the exchange `audit`, without a binding.
"""

from __future__ import annotations

from warren.extend import Destination, Envelope, Exchange, ExchangeDecorator, Kind, Text

KEY = "copy-to"


class CopyTo(ExchangeDecorator):
    def policy_keys(self) -> dict[str, Kind]:
        return {KEY: Text()}

    def active_for(self, exchange: Exchange) -> bool:
        return KEY in exchange.effective_policy

    def route(self, exchange: Exchange, envelope: Envelope) -> list[Destination]:
        return [Destination(exchange.vhost, str(exchange.effective_policy[KEY]), True)]
