"""The calls of one task of a graph: none is made twice, and all ask together.

LangGraph runs the node of a task again from its beginning: when somebody has answered an
interrupt, when the node is retried, and when another process goes on with the thread. So a call
leaves records with the checkpointer, one before it is sent and one with its result. A call that
has a result returns it, and one that was sent and has none is not sent again.

Both records are written before the call goes on, with every checkpointer:

- The first must be there before the request is: whoever finds it without a result knows that the
  call may have taken effect, also after a crash.
- The second must be there before the node goes on: the next thing in it may be an interrupt or an
  error of the user's own, of which nobody tells plait. Were the result still in memory only, a
  process that resumes the graph could not return it.

They are small, and one that keeps its data in memory stores both within 20 µs. What is left out is
everything else: a task that runs for the first time reads nothing, because nothing can be there,
and its calls are direct like those of any other caller. A repeatable call leaves no record.

A graph may be resumed twice at once: a person clicks twice, and two workers take one answer each.
So a task that runs again reads after it has written that it sends a call. Of two such runs at
least one sees the other, and who sees another sends nothing.

A task has one interrupt at a time, and its answers are matched by their order. The calls of a node
may be made at the same time, and in another order in each run. So they share one interrupt, and
each answer is recorded for the call that it belongs to. LangGraph runs a node on the condition that
it repeats its interrupts in their order. So an answer is taken where the call that asked comes
again: what came before it in the node, such as an interrupt of the user's own, has come before.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import hashlib
import json
import logging
import sys
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Final, Literal, NoReturn
from weakref import WeakValueDictionary

from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt

from plait import errors
from plait._support.mappings import entries_of
from plait.client.calls.approval import Approval
from plait.client.calls.outcome import ToolResult
from plait.client.calls.tool_call import Pause, ToolCall
from plait.client.config.raw_value import as_list
from plait.errors import OutcomeUnknownError, PlaitError
from plait.langchain.tools.graph_run import TaskFacts, Write

logger = logging.getLogger("plait.langchain")

SIBLING_SECONDS = 30.0
"""How long a question waits for other calls of its task, which end or come to ask as well.

What still runs then goes on, and is waited for when this process resumes the graph."""

_SETTLE_SECONDS: Final = 0.05
"""How long calls that are made at the same time may come one after the other."""

_CHANNEL: Final = "plait_calls"

MAX_ENDED_TASKS = 4096
"""How many tasks that have ended are kept in memory at most, beside those that run."""

_LOST_TEXT = (
    "an earlier run of the graph sent it, or one at the same time, and its result is not known. "
    "It may have taken effect, so it was not sent again; check before doing it again"
)

_SAME_ID_TEXT = (
    "an earlier run of the graph made several calls with its tool_call_id and other arguments, and "
    "this may be one of them. It was not sent; give each call an id of its own"
)

Kind = Literal["approval", "sign-in", "elicitation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a call needs to know from a person."""

    call: str
    """The call, as its task knows it."""
    call_id: str | None
    kind: Kind
    value: dict[str, Any] = field(repr=False)
    """The value of the interrupt, if no other call asks."""
    facts: str
    """A digest of what the answer is bound to."""
    more: Any = field(repr=False)
    """What the call needs besides the answer to go on."""


def shown_value(questions: Sequence[Question]) -> dict[str, Any]:
    """Return the value of the interrupt that asks these questions.

    Each of several requests is the value that the interrupt of its call alone has.
    """
    if len(questions) == 1:
        return questions[0].value
    requests = [{**one.value, "tool_call_id": one.call_id} for one in questions]
    return {"type": "mcp_requests", "requests": requests}


def answers_of(answer: object, questions: Sequence[Question]) -> list[object | None]:
    """Return the answer to each question; `None` where there is none, or it is not clear which.

    Several questions are answered by `{tool_call_id: answer}`, by a list in their order, or by one
    answer that fits them all.
    """
    by_id = entries_of(answer)
    if any(question.call_id in by_id for question in questions if question.call_id):
        return [by_id.get(question.call_id or "") for question in questions]
    if len(questions) == 1:
        return [answer]
    listed = as_list(by_id.get("decisions", by_id.get("answers", answer)))
    if listed is not None:
        return [*listed] if len(listed) == len(questions) else [None] * len(questions)
    kinds = {question.kind for question in questions}
    return [answer if _fits(answer, one, alone=len(kinds) == 1) else None for one in questions]


def _fits(answer: object, question: Question, *, alone: bool) -> bool:
    """Return whether an answer that names no call can be one to this question."""
    entries = entries_of(answer)
    if question.kind == "elicitation":
        keys = entries_of(entries.get("responses")).keys()
        return bool(keys) and keys >= {one["key"] for one in question.value["requests"]}
    if isinstance(answer, bool) and not alone:
        return question.kind == "sign-in"  # having signed in is no approval of something else
    if question.kind == "sign-in":
        return isinstance(answer, bool) or "action" in entries
    approval = Approval.read(answer)
    return approval is not None and approval.decision != "edit"


@dataclass(slots=True)
class _Past:
    """What runs of the task have recorded of a call."""

    senders: set[str] = field(default_factory=set[str])
    """The runs that sent it, if it neither has a result nor waits for an answer."""
    arguments: str | None = None
    """A digest of those that it was sent with."""
    outcome: Mapping[str, Any] | None = None
    unanswered: Question | None = None
    answers: list[tuple[Question, object]] = field(default_factory=list[tuple[Question, object]])

    def note(self, record: Mapping[str, Any]) -> None:
        """Note what became of the sent call."""
        match record:
            case {"kind": "sent"}:
                self.senders.add(record.get("run", ""))
                self.arguments = record.get("arguments")
            case {"kind": "dropped"}:
                self.senders.discard(record.get("run", ""))
            case {"kind": "ended"}:
                self.outcome = record
            case _:
                pass


class MadeByAnotherRunError(Exception):
    """Another run of the task makes the call, because the graph was resumed twice at once."""


class GraphTask:
    """One run of a task, with the calls that it makes."""

    @classmethod
    def of(cls, facts: TaskFacts) -> GraphTask:
        """Return the run of the task that makes a call."""
        global _kept_tasks  # noqa: PLW0603
        name = facts.thread, facts.namespace
        with _lock:
            task = _tasks.get(name)
            if task is None or task.info is not facts.info:
                if len(_tasks) >= _kept_tasks + MAX_ENDED_TASKS:
                    # LangGraph does not say when a task ends. Then nobody else has its facts.
                    for ended in [one for one, kept in _tasks.items() if kept.has_ended]:
                        del _tasks[ended]
                    _kept_tasks = len(_tasks)
                task = _tasks[name] = cls(facts)
            return task

    def __init__(self, facts: TaskFacts) -> None:
        self.info = facts.info
        self.run = str(uuid.uuid4())
        self._thread, self._name = facts.thread, facts.namespace
        self._calls: Counter[str] = Counter()
        self._order: dict[str, int] = {}
        """By key, when each call was made in comparison with others; questions have this order."""
        self._is_loaded = not facts.runs_again
        self._loading = asyncio.Lock()
        self.past: defaultdict[str, _Past] = defaultdict(_Past)
        """What is known of calls from earlier runs, by key."""
        self._before_edit: dict[tuple[str, str | None], list[_Past]] = {}
        """The same of calls that the node made before the state of the waiting graph was edited,
        by key and arguments: such a task begins anew."""
        self._records = 0
        self._answered: list[frozenset[str]] = []
        """The calls of each interrupt that was answered and has not come again in this run."""
        self._last_interrupt: tuple[Any, list[Question]] | None = None
        """The last interrupt, if it is one of this module: its value and its questions."""
        self._underway: set[GraphCall] = set()
        self._joined_at = 0.0
        self._open_questions: list[tuple[Question, Callable[[], object]]] = []
        """What calls ask, and how to wake them when another call has ended or asks."""
        self._graph_interrupt: GraphInterrupt | None = None

    @property
    def has_ended(self) -> bool:
        """Whether nobody but this module refers to what LangGraph says of the run."""
        return sys.getrefcount(self.info) <= _REFERENCES_OF_ATTRIBUTES

    async def call(self, call: ToolCall, facts: TaskFacts, *, is_repeatable: bool) -> GraphCall:
        """Return a call of the task; in each run it is known by its id and its arguments.

        Calls that are the same in this are told apart by their order.

        Raises:
            OutcomeUnknownError: Nobody can tell which call of an earlier run it is.
        """
        async with self._loading:
            if not self._is_loaded:
                await self._load(facts)
                self._is_loaded = True
            key = self._key_of(call)
            await self._take_answers(facts, key)
        before: Sequence[_Past] = ()
        if self._before_edit and key not in self.past:
            before = self._before_edit.get((key, digest(call.arguments)), ())
        # Which of several tasks has made a call that all of them make, nobody can tell.
        past = before[0] if len(before) == 1 else None
        return GraphCall(self, facts, key, call, is_repeatable, past)

    def _key_of(self, call: ToolCall) -> str:
        identity = f"{call.where} {call.call_id} " if call.call_id else f"{call.where} "
        name = f"{identity}{digest(call.arguments)}"
        with _lock:  # nodes that are not async make their calls in threads
            number = self._calls[name]
            self._calls[name] += 1
            key = f"{name} {number}"
            if call.call_id and key not in self.past:
                # An earlier run may have made it with other arguments, such as the time.
                left = [one for one in self.past if one.startswith(identity)]
                left = [one for one in left if one not in self._order] or [key]
                key = left[0] if len(left) == 1 else ""
            if not key or key in self._order:
                raise call.error(OutcomeUnknownError, _SAME_ID_TEXT)
            self._order[key] = len(self._order)
        return key

    def full_name(self, key: str) -> tuple[str, str, str]:
        """Return how a call is known in all threads and tasks."""
        return self._thread, self._name, key

    async def reload(self, facts: TaskFacts) -> None:
        """Read what has been recorded meanwhile, by a call that outlived its run or another run."""
        async with self._loading:
            to_come = self._answered, self._last_interrupt
            await self._load(facts)
            self._answered, self._last_interrupt = to_come

    async def _load(self, facts: TaskFacts) -> None:
        """Read what earlier runs have recorded, and what their last interrupt showed."""
        writes, edited = await facts.writes()
        own = [record for record in _records_in(writes) if record["task"] == self._name]
        self.past, self._answered = defaultdict(_Past), []
        asked: dict[str, list[Question]] = {}
        for record in own:
            self._records = max(self._records, record["number"])
            match record:
                case {"kind": "asked", "shown": shown, "questions": questions}:
                    asked[shown] = [Question(**one) for one in questions]
                    for question in asked[shown]:
                        past = self.past[question.call]
                        past.senders.clear()
                        past.unanswered = question
                case {"kind": "answered", "calls": calls, "answers": answers}:
                    self._answered.append(frozenset(calls))
                    for question, answer in answers:
                        self._note_answer(Question(**question), answer)
                case {"call": key}:
                    self.past[key].note(record)
                case _:
                    pass  # written by a later version
        node = self._name.rpartition(":")[0]
        before: defaultdict[tuple[str, str], _Past] = defaultdict(_Past)
        for record in _records_in(edited):
            if record["task"].rpartition(":")[0] == node and "call" in record:
                before[record["task"], record["call"]].note(record)
        self._before_edit = {}
        for (_, key), past in before.items():
            if past.senders:
                self._before_edit.setdefault((key, past.arguments), []).append(past)
        last = facts.last_interrupt(writes)
        if last is not None and (questions := asked.get(digest(last.value))) is not None:
            self._last_interrupt = last.value, questions

    def _note_answer(self, question: Question, answer: object) -> None:
        past = self.past[question.call]
        past.unanswered = None
        past.answers.append((question, answer))

    async def _take_answers(self, facts: TaskFacts, key: str) -> None:
        """Take the answers to interrupts of this module that a call was part of."""
        if self._graph_interrupt is not None:
            return  # there are no more answers in this run
        is_shown = self._last_interrupt is not None and key in {
            one.call for one in self._last_interrupt[1]
        }
        # The last interrupt came after all that were answered before it.
        repeated = [calls for calls in self._answered if is_shown or key in calls]
        for calls in repeated:
            self._answered.remove(calls)
            with contextlib.suppress(GraphInterrupt):
                interrupt(None)  # returns the answer, which is recorded
        if self._last_interrupt is None or not is_shown:
            return
        try:
            answer = interrupt(self._last_interrupt[0])
        except GraphInterrupt as unanswered:
            self._graph_interrupt, self._last_interrupt = unanswered, None
            return
        await self._note_answers(facts, answer)

    async def _note_answers(self, facts: TaskFacts, answer: object) -> None:
        """Record the answer to the last interrupt for the calls that it belongs to."""
        if self._last_interrupt is None:
            return
        (_, questions), self._last_interrupt = self._last_interrupt, None
        answers = [
            (question, given)
            for question, given in zip(questions, answers_of(answer, questions), strict=True)
            if given is not None
        ]
        for question, given in answers:
            self._note_answer(question, given)
        pairs = [(asdict(question), given) for question, given in answers]
        asked = [question.call for question in questions]
        await self.record(facts, kind="answered", calls=asked, answers=pairs)

    async def record(self, facts: TaskFacts, **record: Any) -> None:
        """Leave a record with the checkpointer."""
        self._records += 1
        entry = {**record, "task": self._name, "number": self._records}
        # It has the id of no task, so that LangGraph does not take the record for output.
        await facts.write(str(uuid.uuid4()), _CHANNEL, entry)

    @contextlib.contextmanager
    def underway(self, call: GraphCall) -> Generator[None]:
        """Let the questions of other calls wait for this one."""
        self._underway.add(call)
        self._joined_at = time.monotonic()
        try:
            yield
        finally:
            self._underway.discard(call)
            self._wake_asking()

    def _wake_asking(self) -> None:
        for _, wake in list(self._open_questions):
            wake()

    async def ask(self, question: Question, facts: TaskFacts) -> NoReturn:
        """Interrupt the graph when every other call of the task has ended or asks as well.

        Raises:
            GraphInterrupt: Always, and the same one for all that ask.
        """
        if self._graph_interrupt is not None:
            # It comes too late to be shown, and asks again when the graph resumes.
            asked = [asdict(question)]
            await self.record(facts, kind="asked", shown="", questions=asked)
            raise self._graph_interrupt
        changed = asyncio.Event()
        # Calls of nodes that are not async end in other threads.
        wake = partial(asyncio.get_running_loop().call_soon_threadsafe, changed.set)
        asking = question, wake
        self._open_questions.append(asking)
        self._wake_asking()
        began_at = time.monotonic()
        try:
            while self._graph_interrupt is None:
                changed.clear()
                seconds = None
                if self._open_questions[0] is asking:  # it asks for all, and wakes the others
                    seconds = began_at + SIBLING_SECONDS - time.monotonic()
                    open_calls = {one.call for one, _ in self._open_questions}
                    if {call.key for call in list(self._underway)} <= open_calls:
                        # All that are under way ask; others may be about to be made. The time
                        # until this question does not count, as the loop may have been busy.
                        settles_at = max(self._joined_at, began_at) + _SETTLE_SECONDS
                        seconds = settles_at - time.monotonic()
                    if seconds <= 0:
                        await self._interrupt_together(facts)
                        continue
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await changed.wait()
            raise self._graph_interrupt
        finally:
            self._open_questions.remove(asking)
            self._wake_asking()

    async def _interrupt_together(self, facts: TaskFacts) -> None:
        questions = [question for question, _ in self._open_questions]
        questions.sort(key=lambda question: self._order[question.call])
        self._answered.clear()
        value = shown_value(questions)
        asked = [asdict(question) for question in questions]
        await self.record(facts, kind="asked", shown=digest(value), questions=asked)
        answers: list[object] = []
        try:
            while True:
                answers.append(interrupt(value))  # those to interrupts that did not come again
        except GraphInterrupt as raised:
            self._graph_interrupt = raised
        if answers:
            await self._note_answers(facts, answers[-1])


@dataclass(slots=True, eq=False)
class GraphCall:
    """A call of a task."""

    _task: GraphTask
    _facts: TaskFacts
    key: str
    call: ToolCall
    _is_repeatable: bool
    _before_edit: _Past | None
    _outcome: concurrent.futures.Future[Mapping[str, Any]] = field(
        default_factory=concurrent.futures.Future[Mapping[str, Any]]
    )
    """The record of the result."""
    _is_sent: bool = False

    @property
    def _past(self) -> _Past:
        """What is known of the call from earlier runs."""
        return self._task.past[self.key]

    @property
    def pause(self) -> Pause:
        """How the client recognizes the call when it is made again with answers."""
        return Pause(self._task.full_name(self.key), resumed=bool(self.answers("elicitation")))

    @property
    def unanswered(self) -> Question | None:
        """What the call asked in an earlier run, if there is no answer yet."""
        return self._past.unanswered

    def answers(self, kind: Kind) -> list[tuple[Question, object]]:
        """Return the questions of a kind that were answered, oldest first."""
        return [pair for pair in self._past.answers if pair[0].kind == kind]

    async def ask(
        self, kind: Kind, value: Mapping[str, Any], *, facts: str = "", more: Any = None
    ) -> NoReturn:
        """Interrupt the graph, together with other calls of the task that ask."""
        question = Question(
            call=self.key,
            call_id=self.call.call_id,
            kind=kind,
            value=dict(value),
            facts=facts,
            more=more,
        )
        await self._task.ask(question, self._facts)

    async def earlier_result(self) -> ToolResult | None:
        """Return the result of the call, if an earlier run has made it.

        Raises:
            PlaitError: The call has failed, or it was sent and its result is not known.
        """
        past = self._before_edit or self._past
        if past.outcome is None and past.senders and past is not self._before_edit:
            past = await self._past_when_ended()
        if past.outcome is not None:
            return self._result_of(past.outcome)
        if past.senders:
            raise self.call.error(OutcomeUnknownError, _LOST_TEXT)
        return None

    async def result_of_other_run(self) -> ToolResult:
        """Return the result of the call that another run of the task makes.

        Raises:
            PlaitError: The call has failed, or the run is one of another process.
        """
        outcome = (await self._past_when_ended()).outcome
        if outcome is None:
            raise self.call.error(OutcomeUnknownError, _LOST_TEXT)
        if not self._outcome.done():
            self._outcome.set_result(outcome)  # a third run may wait for this one
        return self._result_of(outcome)

    async def _past_when_ended(self) -> _Past:
        """Wait for the call if this process makes it, and return what is known of it then."""
        running = _running.get(self._task.full_name(self.key))
        if running is not None:
            # Who cancels a run that waits does not mean the call.
            return _Past(outcome=await asyncio.shield(asyncio.wrap_future(running)))
        await self._task.reload(self._facts)  # it may have ended a moment ago
        return self._past

    @contextlib.contextmanager
    def underway(self) -> Generator[None]:
        """Let others wait for the call while it is made."""
        with self._task.underway(self):
            try:
                yield
            finally:
                if not self._outcome.done():
                    self._outcome.set_exception(self.call.error(OutcomeUnknownError, _LOST_TEXT))

    async def send(self) -> None:
        """Record that the call is about to be sent.

        Raises:
            MadeByAnotherRunError: Another run of the task makes it.
        """
        if self._is_repeatable or self._is_sent:
            return
        name = self._task.full_name(self.key)
        with _lock:
            rival = _running.get(name)
            if rival is not None:
                # One that has just ended may not have recorded its result yet.
                has_result = rival.done() and rival.exception() is None
                if not rival.done() or (has_result and self._facts.runs_again):
                    raise MadeByAnotherRunError
            _running[name] = self._outcome
        arguments = digest(self.call.arguments)
        await self._record(kind="sent", arguments=arguments)
        if self._facts.runs_again:
            await self._task.reload(self._facts)
            if self._past.outcome is not None or self._past.senders != {self._task.run}:
                _running.pop(name, None)
                await self._record(kind="dropped")
                raise MadeByAnotherRunError
        self._is_sent = True

    async def end(self, result: Mapping[str, Any]) -> None:
        """Record the result, as `ToolResult.to_dict` describes it."""
        record = {"kind": "ended", "result": result}
        self._outcome.set_result(record)
        await self._end(**record)

    async def fail(self, error: PlaitError) -> None:
        """Record the error of the call."""
        self._outcome.set_exception(error)
        if error.retry == "always" or error.kind == "auth":
            await self._end(kind="dropped")  # it was not executed
        else:
            await self._end(kind="ended", error=error.to_dict())

    async def _end(self, **record: Any) -> None:
        if not self._is_sent:
            return
        try:
            await self._record(**record)
        except Exception:  # boundary: a checkpointer may raise anything, and the call is over
            logger.warning("%s: its outcome is not recorded", self.call.where, exc_info=True)

    async def _record(self, **record: Any) -> None:
        await self._task.record(self._facts, call=self.key, run=self._task.run, **record)

    def _result_of(self, record: Mapping[str, Any]) -> ToolResult:
        """Return the result in a record, or raise the error."""
        if (result := record.get("result")) is not None:
            return ToolResult.from_dict(result)
        error: Mapping[str, Any] = record["error"]
        kind = getattr(errors, str(error.get("error")), PlaitError)
        raise kind(
            error["message"],
            server=error.get("client"),
            tool=error.get("tool_name"),
            code=error.get("code"),
            status=error.get("status"),
            retry=error.get("retry"),
            retryable=error.get("retryable"),
        )


def _records_in(writes: Sequence[Write]) -> list[dict[str, Any]]:
    """Return the records of this module among the writes, oldest first."""
    records = [value for _, channel, value in writes if channel == _CHANNEL]
    return sorted(records, key=lambda record: record["number"])


_tasks: dict[tuple[str, str], GraphTask] = {}
_kept_tasks = 0
"""How many of them had not ended when they were last looked at."""
_PROBE: Final = _Past(outcome={})
_REFERENCES_OF_ATTRIBUTES: Final = sys.getrefcount(_PROBE.outcome)
"""Those of a value that only an attribute refers to, which differ between versions of Python."""
_lock = threading.Lock()
_running: WeakValueDictionary[tuple[str, str, str], concurrent.futures.Future[Mapping[str, Any]]]
_running = WeakValueDictionary()
"""The outcomes of calls that this process makes; also of those that outlive their task."""


def digest(value: object) -> str:
    """Return a short text that is the same for equal JSON values, also in another process."""
    text = json.dumps(value, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()
