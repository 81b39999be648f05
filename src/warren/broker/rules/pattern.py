"""Regular expressions of permissions and policies, with the meaning of Erlang's re:run, in linear time.

Python's `re` backtracks: one `(a+)+$` in a policy and one unlucky name would stop the whole broker. Here all ways
through the pattern are followed at once (Thompson's construction), so a match costs at most length times size.
A match may start anywhere (write ^ and $ to anchor) and works on bytes: `.` is one byte of the UTF-8 name.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from warren.broker.rules.pattern_sets import WORD
from warren.broker.rules.pattern_syntax import (
    ANCHOR,
    AT_END,
    AT_LINE_END,
    AT_LINE_START,
    AT_START,
    AT_VERY_END,
    AT_WORD_EDGE,
    CHOICE,
    LOOK,
    REPEAT,
    SEQUENCE,
    SET,
    PatternError,
    Syntax,
    SyntaxNode,
)

# RabbitMQ's own ceiling for what users write.
PATTERN_BYTES_MAX: Final = 1024
_STEPS_MAX: Final = 2000
# Lookarounds multiply the work; past this, nothing matches (RabbitMQ gives up in the same way).
_WORK_MAX: Final[i64] = 1_000_000
_NEWLINE: Final = 10

# Instructions: take a byte of a set; go on at both; go on; hold an anchor; hold a look; done.
_TAKE: Final = 0
_FORK: Final = 1
_GO: Final = 2
_HOLD: Final = 3
_PEEK: Final = 4
_DONE: Final = 5


class Instruction:
    def __init__(self, what: i64, first: i64, second: i64, members: bytes) -> None:
        self.what = what
        self.first = first
        self.second = second
        self.members = members


class Pattern:
    def __init__(self, text: str, bytes_max: int = PATTERN_BYTES_MAX) -> None:
        data = text.encode(errors="surrogateescape")
        if len(data) > bytes_max:
            raise PatternError(text[:32] + "...", f"longer than {bytes_max} bytes", bytes_max)
        self.text = text
        # By far the most frequent permission.
        self._matches_all = text in ("", ".*")
        self.work: i64 = 0
        self._program: list[Instruction] = []
        self._compile(Syntax(text, data.decode("latin-1")).read())
        self._add(_DONE, 0, 0, b"")

    def matches(self, subject: str, work_max: i64 = _WORK_MAX) -> bool:
        """`work` tells afterwards how many steps it took."""
        self.work = 0
        if self._matches_all:
            return True
        matching = _Matching(self._program, subject.encode(errors="surrogateescape"), work_max)
        is_found = matching.search()
        self.work = matching.work
        return is_found

    def _add(self, what: i64, first: i64, second: i64, members: bytes) -> Instruction:
        if len(self._program) >= _STEPS_MAX:
            raise PatternError(self.text, "regular expression is too large", len(self.text))
        instruction = Instruction(what, first, second, members)
        self._program.append(instruction)
        return instruction

    def _compile(self, node: SyntaxNode) -> None:
        if node.kind == SET:
            self._add(_TAKE, 0, 0, node.members)
        elif node.kind == SEQUENCE:
            for part in node.parts:
                self._compile(part)
        elif node.kind == CHOICE:
            self._compile_choice(node)
        elif node.kind == REPEAT:
            self._compile_repeat(node)
        elif node.kind == ANCHOR:
            self._add(_HOLD, node.low, 0, b"")
        elif node.kind == LOOK:
            peek = self._add(_PEEK, 0, node.high * 2 + node.low, b"")
            self._compile(node.parts[0])
            self._add(_DONE, 0, 0, b"")
            peek.first = len(self._program)

    def _compile_choice(self, node: SyntaxNode) -> None:
        leaving: list[Instruction] = []
        for part in node.parts[:-1]:
            fork = self._add(_FORK, len(self._program) + 1, 0, b"")
            self._compile(part)
            leaving.append(self._add(_GO, 0, 0, b""))
            fork.second = len(self._program)
        self._compile(node.parts[-1])
        for go in leaving:
            go.first = len(self._program)

    def _compile_repeat(self, node: SyntaxNode) -> None:
        for _ in range(node.low):
            self._compile(node.parts[0])
        if node.high < 0:
            start = len(self._program)
            fork = self._add(_FORK, start + 1, 0, b"")
            self._compile(node.parts[0])
            self._add(_GO, start, 0, b"")
            fork.second = len(self._program)
            return
        leaving: list[Instruction] = []
        for _ in range(node.high - node.low):
            leaving.append(self._add(_FORK, len(self._program) + 1, 0, b""))
            self._compile(node.parts[0])
        for fork in leaving:
            fork.second = len(self._program)


class _Matching:
    """One question: does this program match anywhere in this subject?"""

    def __init__(self, program: list[Instruction], subject: bytes, work_max: i64) -> None:
        self._program = program
        self._subject = subject
        self._end: i64 = len(subject)
        self.work: i64 = 0
        self._work_max: i64 = work_max
        # What a look at a position gave: asked again by every way that comes by.
        self._looks: dict[tuple[int, int], bool] = {}

    def search(self) -> bool:
        # A search that gave up proves nothing, whatever a negative look made of it.
        return self._run(0, 0, True) and self.work <= self._work_max

    def _run(self, start: i64, begin: i64, anywhere: bool) -> bool:
        # The position at which each instruction was last reached: no way is followed twice.
        reached: list[int] = [-1] * len(self._program)
        ways: list[int] = []
        at = begin
        while True:
            if (anywhere or at == begin) and self._follow(start, at, reached, ways):
                return True
            if at >= self._end or (not ways and not anywhere):
                return False
            byte = self._subject[at]
            at += 1
            onward: list[int] = []
            for way in ways:
                if self._program[way].members[byte] and self._follow(way + 1, at, reached, onward):
                    return True
            ways = onward

    def _follow(self, start: i64, at: i64, reached: list[int], ways: list[int]) -> bool:
        """Add to `ways` every instruction that takes a byte and is reached from here; True when done is reached."""
        pending: list[int] = [start]
        while pending:
            here = pending.pop()
            if reached[here] == at:
                continue
            reached[here] = at
            self.work += 1
            if self.work > self._work_max:
                return False
            instruction = self._program[here]
            if instruction.what == _TAKE:
                ways.append(here)
            elif instruction.what == _DONE:
                return True
            elif instruction.what == _FORK:
                pending.append(instruction.first)
                pending.append(instruction.second)
            elif instruction.what == _GO:
                pending.append(instruction.first)
            elif instruction.what == _HOLD:
                if self._holds(instruction.first, at):
                    pending.append(here + 1)
            elif self._looks_right(here, at):
                pending.append(instruction.first)
        return False

    def _looks_right(self, here: int, at: i64) -> bool:
        question = (here, int(at))
        found = self._looks.get(question)
        if found is None:
            back = self._program[here].second >> 1
            begin = at - back if back > 0 else at
            found = begin >= 0 and self._run(here + 1, begin, False)
            self._looks[question] = found
        return found != (self._program[here].second & 1 == 1)

    def _holds(self, anchor: i64, at: i64) -> bool:
        if anchor == AT_START:
            return at == 0
        if anchor == AT_VERY_END:
            return at == self._end
        if anchor == AT_END:
            return at == self._end or (at == self._end - 1 and self._subject[at] == _NEWLINE)
        if anchor == AT_LINE_START:
            # Not after a newline that ends the subject: there is no line there.
            return at == 0 or (at < self._end and self._subject[at - 1] == _NEWLINE)
        if anchor == AT_LINE_END:
            return at == self._end or self._subject[at] == _NEWLINE
        edge = self._is_word(at - 1) != self._is_word(at)
        return edge if anchor == AT_WORD_EDGE else not edge

    def _is_word(self, at: i64) -> bool:
        return 0 <= at < self._end and WORD[self._subject[at]] == 1
