"""Topic: binding keys are patterns over dot-separated words, `*` one word and `#` any number, none included.

The patterns form a trie. Past a `#` the search carries a set of positions in the key (bits of an int) instead of
trying them one by one, so a match looks at every node at most once however many `#` the patterns hold.
RabbitMQ 4.3 refuses a third `#` because its search multiplies with each; this one does not, so any number is allowed.
"""

from __future__ import annotations

from mypy_extensions import i64

from warren.broker.exchanges.base import Binding, Destination, Envelope, Exchange
from warren.broker.exchanges.targets import Targets


class TopicExchange(Exchange):
    def __init__(self, vhost: str, name: str) -> None:
        super().__init__(vhost, name, "topic")
        self._root = _TrieNode()
        # Nodes that the last match looked at: the cost that the tests hold to its bound.
        self.visited: i64 = 0

    def add(self, binding: Binding) -> None:
        node = self._root
        for word in _pattern(binding.routing_key):
            node = node.child_or_new(word)
        node.targets.add(binding.destination)

    def remove(self, binding: Binding) -> None:
        words = _pattern(binding.routing_key)
        path = [self._root]
        for word in words:
            child = path[-1].child(word)
            if child is None:
                return
            path.append(child)
        path[-1].targets.discard(binding.destination)
        while words and path[-1].is_bare():
            path.pop()
            path[-1].drop(words.pop())

    def match(self, envelope: Envelope) -> list[Destination]:
        found: list[Destination] = []
        visited: i64 = 0
        for key in envelope.keys:
            search = _Search(_words(key), found)
            search.follow(self._root, 0)
            visited += search.visited
        self.visited = visited
        return found


class _TrieNode:
    def __init__(self) -> None:
        self.literals: dict[str, _TrieNode] = {}
        self.one: _TrieNode | None = None
        self.many: _TrieNode | None = None
        self.targets = Targets()

    def child(self, word: str) -> _TrieNode | None:
        if word == "*":
            return self.one
        if word == "#":
            return self.many
        return self.literals.get(word)

    def child_or_new(self, word: str) -> _TrieNode:
        child = self.child(word)
        if child is None:
            child = _TrieNode()
            if word == "*":
                self.one = child
            elif word == "#":
                self.many = child
            else:
                self.literals[word] = child
        return child

    def drop(self, word: str) -> None:
        if word == "*":
            self.one = None
        elif word == "#":
            self.many = None
        else:
            del self.literals[word]

    def is_leaf(self) -> bool:
        return not self.literals and self.one is None and self.many is None

    def is_bare(self) -> bool:
        return self.is_leaf() and self.targets.is_empty()


class _Search:
    """One key looked up. Recursion is as deep as a binding key has words: 256 at most."""

    def __init__(self, words: list[str], found: list[Destination]) -> None:
        self.words = words
        self.count: i64 = len(words)
        self.found = found
        self.visited: i64 = 0
        # At which positions each word of the key stands, as bits; made when the first `#` needs it.
        self.places: dict[str, int] = {}
        # The bit past the last word: a node reached with it has matched the whole key.
        self.end: int = 1 << len(words)

    def follow(self, node: _TrieNode, at: i64) -> None:
        """Continue at `node` with the words from `at` on: the only way on until a `#` is met."""
        self.visited += 1
        many = node.many
        if many is not None:
            self._enter_many(many, 1 << at)
        if at == self.count:
            if not node.targets.is_empty():
                self.found.extend(node.targets.listed())
            return
        child = node.literals.get(self.words[at])
        if child is not None:
            self.follow(child, at + 1)
        one = node.one
        if one is not None:
            self.follow(one, at + 1)

    def _enter_many(self, node: _TrieNode, positions: int) -> None:
        """A `#` swallows any number of words: every position from the first one on is reached."""
        if node.is_leaf():
            self.visited += 1
            self.found.extend(node.targets.listed())
            return
        if not self.places:
            self._place_words()
        first = positions & -positions
        self._spread(node, (self.end << 1) - first)

    def _place_words(self) -> None:
        bit = 1
        for word in self.words:
            self.places[word] = self.places.get(word, 0) | bit
            bit <<= 1

    def _spread(self, node: _TrieNode, positions: int) -> None:
        """Continue at `node` from all these positions at once."""
        self.visited += 1
        if positions & self.end and not node.targets.is_empty():
            self.found.extend(node.targets.listed())
        many = node.many
        if many is not None:
            self._enter_many(many, positions)
        # At the end no word is left to go on with.
        positions &= ~self.end
        if not positions:
            return
        one = node.one
        if one is not None:
            self._spread(one, positions << 1)
        self._spread_literals(node, positions)

    def _spread_literals(self, node: _TrieNode, positions: int) -> None:
        # The smaller side is walked: neither a long key nor a wide node may cost its full size at every node.
        if len(node.literals) < len(self.places):
            for word, child in node.literals.items():
                reached = self.places.get(word, 0) & positions
                if reached:
                    self._spread(child, reached << 1)
            return
        for word, places in self.places.items():
            if places & positions:
                next_child = node.literals.get(word)
                if next_child is not None:
                    self._spread(next_child, (places & positions) << 1)


def _words(key: str) -> list[str]:
    # The empty key has no words, where split() would say one empty word: `#` matches it and `*` does not.
    return key.split(".") if key else []


def _pattern(key: str) -> list[str]:
    """The words of a binding key, with `#.#` as the `#` that it is."""
    pattern: list[str] = []
    for word in _words(key):
        if word != "#" or not pattern or pattern[-1] != "#":
            pattern.append(word)
    return pattern
