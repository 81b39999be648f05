"""Dead letters: what leaves a queue unwanted, and waits here until the operation that killed it is over.

They are never republished within that operation, so that a chain of full queues is a loop and not a recursion.
burial.py sends them on: what clients and time have killed at once, what letters kill in turn a piece at a time.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64, mypyc_attr

from warren.broker.timers import Timer
from warren.broker.world import Host

if TYPE_CHECKING:
    from warren.broker.queue.entry import Entry
    from warren.broker.queue.errands import Errand
    from warren.broker.queue.outlet import Outlet
    from warren.broker.queue.queue import Queue

REASON_REJECTED: Final = "rejected"
REASON_EXPIRED: Final = "expired"
REASON_MAXLEN: Final = "maxlen"
REASON_DELIVERY_LIMIT: Final = "delivery_limit"
# What may wait in one line before it is worked off youngest first, and before whoever adds to it has to wait.
LINE_LETTERS: Final[i64] = 1000
LINE_BYTES: Final[i64] = 8 * 1024 * 1024


class DeadLetter:
    def __init__(self, queue: Queue, entry: Entry, reason: str, stored: bool) -> None:
        self.queue = queue
        self.entry = entry
        self.reason = reason
        # False for a message that was refused at the door and never was in the queue.
        self.stored = stored
        # Where it goes to, if that is known while it waits.
        self.funeral: Errand | None = None
        # It could not be sent on: how often, and what its queue had been through by then.
        self.tries: i64 = 0
        self.failed_at: i64 = 0


@mypyc_attr(allow_interpreted_subclasses=True)
class DeathListener:
    """Hears of every dead letter before it is republished: the message path on Spark keeps the books of them."""

    def died(self, letter: DeadLetter) -> None:
        pass


class LetterLine:
    """Letters that wait for a later turn: those that letters caused, and the rest of too many that died at once.

    From one byte letters can make letters by the factorial. They go in the order in which they died, generation by
    generation; while too many wait the youngest generation goes first, and then no more come than the line is deep.
    """

    def __init__(self) -> None:
        self._generations: list[deque[DeadLetter]] = []
        # The queues they died in, each with the youngest generation of its letters.
        self.queues: dict[Queue, int] = {}
        self.count: i64 = 0
        self._bytes: i64 = 0
        # Connections that are not read on until the line is shorter.
        self.held: list[Outlet] = []

    def is_crowded(self) -> bool:
        return self.count > LINE_LETTERS or self._bytes > LINE_BYTES

    def add(self, letter: DeadLetter, generation: i64) -> None:
        # What died in the same queue before it goes before it.
        generation = max(generation, i64(self.queues.get(letter.queue, 0)))
        self.queues[letter.queue] = generation
        while len(self._generations) <= generation:
            self._generations.append(deque())
        self._generations[generation].append(letter)
        self.count += 1
        self._bytes += letter.entry.message.body_size

    def next_generation(self) -> i64:
        """Whose turn it is; only while any wait."""
        generations = self._generations
        while not generations[-1]:
            generations.pop()
        if self.is_crowded():
            return len(generations) - 1
        at: i64 = 0
        while not generations[at]:
            at += 1
        return at

    def take(self, generation: i64) -> DeadLetter:
        letter = self._generations[generation].popleft()
        self.count -= 1
        self._bytes -= letter.entry.message.body_size
        return letter


class Unburied(Timer):
    """Letters that could not be sent on, which is a fault of ours. They have not left their queue, as far as a crash is
    concerned; they are tried again, all of them, for as long as the queue is there.
    """

    def __init__(self, letters: DeadLetters) -> None:
        super().__init__()
        self._letters = letters
        self.waiting: list[DeadLetter] = []
        self._bytes: i64 = 0

    def is_crowded(self) -> bool:
        return len(self.waiting) >= LINE_LETTERS or self._bytes > LINE_BYTES

    def add(self, letter: DeadLetter) -> None:
        letter.failed_at = letter.queue.failed_at
        self.waiting.append(letter)
        self._bytes += letter.entry.message.body_size

    def has_any_of(self, queue: Queue) -> bool:
        return any(letter.queue is queue for letter in self.waiting)

    def fire(self, now: i64) -> None:
        waiting, self.waiting, self._bytes = self.waiting, [], 0
        for letter in waiting:
            # A queue that began anew did so with all that its store has, this one included.
            if not letter.queue.deleted and letter.queue.failed_at == letter.failed_at:
                self._letters.waiting.append(letter)


class DeadLetters:
    def __init__(self, host: Host) -> None:
        self._host = host
        # What clients and time have killed.
        self.waiting: deque[DeadLetter] = deque()
        # Lines by the connection that began them, and None for what nobody did; and by the queues that they are of.
        self.lines: dict[Outlet | None, LetterLine] = {}
        self._lines_of: dict[Queue, LetterLine] = {}
        # Set while a letter is republished: who began it, and what generation its victims are.
        self.maker: Outlet | None = None
        self.generation: i64 = 0
        self.listener: DeathListener | None = None
        self.unburied = Unburied(self)
        # Those that were republished, by type of queue and reason.
        self.counted: dict[tuple[str, str], int] = {}

    def add(self, queue: Queue, entry: Entry, reason: str, stored: bool) -> None:
        letter = DeadLetter(queue, entry, reason, stored)
        if self.generation == 0:
            self.waiting.append(letter)
        else:
            self.stand_in_line(letter)
        if self.listener is not None:
            self.listener.died(letter)
        self._host.wake()

    def line_of(self, queue: Queue) -> LetterLine | None:
        return self._lines_of.get(queue) if self._lines_of else None

    def is_crowded(self, queue: Queue) -> bool:
        """So many letters wait where its letters wait that it should make no more."""
        line = self.line_of(queue)
        if line is not None and line.is_crowded():
            return True
        return self.unburied.is_crowded() and self.unburied.has_any_of(queue)

    def stand_in_line(self, letter: DeadLetter) -> LetterLine:
        """Where letters of its queue wait already, else with those of its maker."""
        line = self.line_of(letter.queue)
        if line is None:
            line = self.lines.get(self.maker)
            if line is None:
                line = LetterLine()
                self.lines[self.maker] = line
            self._lines_of[letter.queue] = line
        line.add(letter, self.generation)
        return line

    def close_line(self, maker: Outlet | None) -> None:
        """Nobody waits in it any more."""
        for queue in self.lines.pop(maker).queues:
            del self._lines_of[queue]
