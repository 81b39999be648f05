"""Workloads of one question at a time: whoever asks waits for the whole answer before the next question.

Nothing is decoded after the first round, which shows how long each answer is and how it begins: all later ones must
be as long and begin alike. So a broker in C and one in Python are asked equally fast.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final

from warren.amqp import methods
from warren.amqp.constants import FRAME_PREFIX, REPLY_QUEUE
from warren.amqp.fields import table_of
from warren.amqp.frames import content_frames
from warren.amqp.properties import Properties, encode_properties
from warren.client.connection import READ_BYTES, Client
from warren.client.session import CHANNEL, Received, Session, frame_of, refusal
from warren.errors import WarrenError
from warren.perf.histogram import Histogram
from warren.perf.measure import Figures, Watch, measure_rounds
from warren.perf.plan import Plan
from warren.perf.workers import Board, Phase, Starter

IDLE_MS: Final = 50
# Of an answer, what is the same in all: the first frame's head and the method's id.
_HEAD_BYTES: Final = FRAME_PREFIX + 4


class Step:
    """Bytes that one socket sends, and what another, or the same, gets for it."""

    def __init__(self, asking: socket.socket, question: bytes, answered: socket.socket, head: bytes, size: int) -> None:
        self.asking = asking
        self.question = question
        self.answered = answered
        self.head = head
        self.size = size


class Party:
    """Goes through its steps, one after the other, which is a round."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps
        self.began = 0
        self._at = 0
        self._answer = b""

    def begin(self) -> None:
        self.began = time.monotonic_ns()
        self._ask(0)

    def is_over(self) -> bool:
        """Read what has come, ask on where an answer is whole, and tell whether that was the last."""
        step = self.steps[self._at]
        data = step.answered.recv(READ_BYTES)
        if not data:
            raise WarrenError("lost the connection: the broker closed it without a word")
        self._answer += data
        if len(self._answer) >= len(step.head) and not self._answer.startswith(step.head):
            raise _complaint(self._answer)
        if len(self._answer) < step.size:
            return False
        if len(self._answer) > step.size:
            raise WarrenError("the answers of this run are not equally long")
        if self._at + 1 == len(self.steps):
            return True
        self._ask(self._at + 1)
        return False

    def _ask(self, number: int) -> None:
        self._at = number
        self._answer = b""
        step = self.steps[number]
        step.asking.sendall(step.question)


def _complaint(answer: bytes) -> WarrenError:
    session = Session()
    session.feed(answer)
    received = session.take()
    return WarrenError("an answer of another kind has begun") if received is None else refusal(received.method)


class Circle:
    """Parties of whom so many ask at a time, each in its turn."""

    def __init__(self, parties: list[Party], at_once: int) -> None:
        self._idle = deque(parties)
        self._at_once = min(at_once or len(parties), len(parties))
        self._under_way = 0
        self._poller = select.poll()
        self._by_fd: dict[int, Party] = {}
        for party in parties:
            for step in party.steps:
                self._by_fd[step.answered.fileno()] = party
        for fd in self._by_fd:
            self._poller.register(fd, select.POLLIN)

    def turn(self, may_begin: bool) -> list[Party]:
        """Who has finished a round meanwhile."""
        while may_begin and self._under_way < self._at_once:
            self._idle.popleft().begin()
            self._under_way += 1
        over = [self._by_fd[fd] for fd, _ in self._poller.poll(IDLE_MS) if self._by_fd[fd].is_over()]
        self._under_way -= len(over)
        self._idle.extend(over)
        return over

    @property
    def is_busy(self) -> bool:
        return self._under_way > 0


# -- what is asked -----------------------------------------------------------------------------------------------------


class Booth:
    """The clients of one party."""

    def __init__(self, plan: Plan, number: int, stack: ExitStack) -> None:
        self.plan = plan
        self.number = number
        self._stack = stack

    def client(self) -> Client:
        return self._stack.enter_context(Client(self.plan.target))

    def publish(self, client: Client, key: str, reply_to: str | None = None) -> bytes:
        properties = encode_properties(Properties(reply_to=reply_to))
        content = content_frames(CHANNEL, properties, b"x" * self.plan.size, client.frame_max)
        return frame_of(methods.BasicPublish(routing_key=key)) + content

    def own_queue(self, client: Client, most: int = 0) -> str:
        """One that goes with the client, also when the run fails, and holds at most so many messages."""
        queue = self.plan.queue(self.number)
        limit = table_of({"x-max-length": most}) if most else {}
        client.call(methods.QueueDeclare(queue=queue, exclusive=True, arguments=limit), methods.QueueDeclareOk)
        return queue


def tried(asking: Client, question: bytes, answered: Client, kind: type[methods.Method]) -> tuple[Step, Received]:
    """A step that was taken once, with what came of it."""
    asking.send([question])
    received = answered.next()
    if not isinstance(received.method, kind):
        raise refusal(received.method)
    size = len(received.frame) + len(received.content)
    return Step(asking.socket, question, answered.socket, received.frame[:_HEAD_BYTES], size), received


def get_steps(booth: Booth) -> list[Step]:
    """A message is published and fetched at once, so that there always is one."""
    client = booth.client()
    queue = booth.own_queue(client)
    question = booth.publish(client, queue) + frame_of(methods.BasicGet(queue=queue, no_ack=True))
    return [tried(client, question, client, methods.BasicGetOk)[0]]


def confirm_steps(booth: Booth) -> list[Step]:
    client = booth.client()
    queue = booth.own_queue(client)
    client.call(methods.ConfirmSelect(), methods.ConfirmSelectOk)
    return [tried(client, booth.publish(client, queue), client, methods.BasicAck)[0]]


def rpc_steps(booth: Booth) -> list[Step]:
    """A request to a server's queue, and its reply by direct reply-to."""
    asking, serving = booth.client(), booth.client()
    queue = booth.own_queue(serving)
    serving.call(methods.BasicConsume(queue=queue, no_ack=True), methods.BasicConsumeOk)
    asking.call(methods.BasicConsume(queue=REPLY_QUEUE, no_ack=True), methods.BasicConsumeOk)
    request, received = tried(asking, booth.publish(asking, queue, REPLY_QUEUE), serving, methods.BasicDeliver)
    reply_to = received.properties.reply_to
    if reply_to is None:
        raise WarrenError("the broker has sent a request without the address for its reply")
    reply, _ = tried(serving, booth.publish(serving, reply_to), asking, methods.BasicDeliver)
    return [request, reply]


def tx_steps(booth: Booth) -> list[Step]:
    client, plan = booth.client(), booth.plan
    queue = booth.own_queue(client, plan.batch)
    client.call(methods.TxSelect(), methods.TxSelectOk)
    question = booth.publish(client, queue) * plan.batch + frame_of(methods.TxCommit())
    return [tried(client, question, client, methods.TxCommitOk)[0]]


def declare_steps(booth: Booth) -> list[Step]:
    client, plan = booth.client(), booth.plan
    queue = plan.queue(booth.number)
    declare = methods.QueueDeclare(queue=queue, durable=plan.persistent, exclusive=not plan.persistent)
    bind = methods.QueueBind(queue=queue, exchange="amq.direct", routing_key=queue)
    questions: list[tuple[methods.Method, type[methods.Method]]] = [
        (declare, methods.QueueDeclareOk),
        (bind, methods.QueueBindOk),
        (methods.QueueDelete(queue=queue), methods.QueueDeleteOk),
    ]
    return [tried(client, frame_of(question), client, answer)[0] for question, answer in questions]


# -- runs --------------------------------------------------------------------------------------------------------------

Steps = Callable[[Booth], list[Step]]


def _work(steps_of: Steps, plan: Plan, board: Board, starter: Starter) -> Histogram:
    times = Histogram()
    with ExitStack() as stack:
        parties = [Party(steps_of(Booth(plan, number, stack))) for number in range(plan.publishers)]
        circle = Circle(parties, plan.in_flight)
        starter.wait_for_go()
        while (may_begin := board.phase < Phase.ENDING) or circle.is_busy:
            for party in circle.turn(may_begin):
                board.published += 1
                if board.phase == Phase.MEASURING:
                    times.add(time.monotonic_ns() - party.began)
    return times


def _run(steps_of: Steps, plan: Plan, pids: Sequence[int], watch: Watch) -> Figures:
    return measure_rounds("rounds", partial(_work, steps_of), plan, pids, watch)


get: Final = partial(_run, get_steps)
confirm: Final = partial(_run, confirm_steps)
rpc: Final = partial(_run, rpc_steps)
declare: Final = partial(_run, declare_steps)
tx: Final = partial(_run, tx_steps)
