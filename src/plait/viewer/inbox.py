"""The inbox: questions that wait for a person, of this viewer's servers and of other processes."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, cast

from mcp_types import ElicitResult
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from plait._support.sanitize import sanitize_for_terminal
from plait._support.threads import in_thread
from plait.client.calls.arguments import prepare_in_bounded_time
from plait.client.catalog.validation import prepare
from plait.client.inbox import MAX_LINE_BYTES, inbox_folder, is_private
from plait.html.elements import Child, Html, h, join
from plait.html.page import page
from plait.html.text import text_block
from plait.viewer.forms import (
    WHOLE,
    FormError,
    arguments_from,
    fields_of,
    form_of,
    form_shell,
    submit_button,
)
from plait.viewer.pages import SITE, Live, form_fields, hint

MAX_QUESTION_SECONDS: Final = 600.0
"""A question that nobody answers ends its call then, as calls that are paused elsewhere."""
MAX_ABSENT_SECONDS: Final = 90.0
"""Pages look for questions every second, and hidden ones every minute: browsers slow them down."""
MAX_QUESTIONS: Final = 200
"""More are refused: nobody would answer them."""
_LOOK_SECONDS = 1.0

NOBODY: Final[Mapping[str, Any]] = {"nobody": True}
CANCELLED: Final[Mapping[str, Any]] = {"action": "cancel"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Something that a person must decide: the approval of a call, or a server's question."""

    kind: Literal["approval", "question"]
    server: str
    message: str
    source: str = ""
    """Which process asks; empty for the servers of this viewer."""
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Of a call that needs approval, without secrets."""
    schema: Mapping[str, Any] | None = None
    """What an answer to a server must contain; `None` if it wants a page to be visited."""
    url: str | None = None
    patient: bool = False
    """Whether it stays while nobody looks."""
    key: str = field(default_factory=lambda: secrets.token_urlsafe(9))


class Inbox:
    """Keeps questions until a page answers them."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[Question, asyncio.Future[Mapping[str, Any]]]] = {}
        self._seen = -MAX_ABSENT_SECONDS

    @property
    def questions(self) -> list[Question]:
        """What has no answer yet, the oldest first."""
        return [one for one, answer in self._waiting.values() if not answer.done()]

    @property
    def is_watched(self) -> bool:
        """Whether a page is open in which a person could answer."""
        return time.monotonic() - self._seen < MAX_ABSENT_SECONDS

    async def ask(self, question: Question) -> Mapping[str, Any]:
        """Return the answer of a page; a cancellation if there is none in time."""
        answer = asyncio.get_running_loop().create_future()
        self._waiting[question.key] = question, answer
        try:
            async with asyncio.timeout(MAX_QUESTION_SECONDS):
                return await answer
        except TimeoutError:
            return CANCELLED
        finally:
            del self._waiting[question.key]

    async def elicit(self, question: Question) -> ElicitResult:
        """Return the answer to a question of one of this viewer's servers."""
        return ElicitResult.model_validate(await self.ask(question))

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[None]:
        """Take questions of other processes of this user during the block, if that is possible."""
        path = await in_thread(_socket_path)
        if path is None:
            yield
            return
        tasks: set[asyncio.Task[Any]] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None  # noqa: S101  # this is a coroutine
            tasks.add(task)
            try:
                with suppress(OSError, ValueError, TypeError, KeyError, asyncio.CancelledError):
                    await self._answer_process(reader, writer)
            finally:
                tasks.discard(task)
                writer.close()

        server = await asyncio.start_unix_server(serve, path, limit=MAX_LINE_BYTES)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)  # not aside: the viewer ends
            server.close()
            for task in tuple(tasks):
                task.cancel()
            if tasks:
                await asyncio.wait(tuple(tasks))

    async def _answer_process(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Put the question of another process, until an answer, or until the process ends."""
        question = _read_question(json.loads(await reader.readline()))
        if len(self._waiting) >= MAX_QUESTIONS:
            return
        asked = asyncio.ensure_future(self.ask(question))
        ended = asyncio.ensure_future(reader.read(1))
        try:
            answer: Mapping[str, Any] = NOBODY
            while self.is_watched or question.patient:
                await asyncio.wait((asked, ended), timeout=5, return_when="FIRST_COMPLETED")
                if ended.done():
                    return
                if asked.done():
                    answer = asked.result()
                    break
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        finally:
            asked.cancel()
            ended.cancel()
            await asyncio.wait((asked, ended))

    # The pages

    def routes(self) -> list[Route]:
        """Return the addresses of the inbox."""
        return [
            Route("/inbox", self.list),
            Route("/inbox/questions", self.cards),
            Route("/inbox/answer", self.answer, methods=["POST"]),
        ]

    async def list(self, _request: Request) -> Response:
        """Answer with the page of the inbox; its script requests the questions."""
        text = (
            "Nothing waits for you. While a page of this viewer is open, approvals and the "
            "questions of servers appear here: of plait run, plait chat, plait serve, and of "
            "agents in programs that record a trace."
        )
        waiting = h("div", id="inbox", class_="inbox-list")
        return HTMLResponse(page("Inbox", h("h1", "Inbox"), waiting, hint(text), site=SITE))

    async def cards(self, request: Request) -> Response:
        """Answer with the questions that wait, if they have changed."""
        self._seen = time.monotonic()
        questions = self.questions
        version = " ".join(one.key for one in questions)
        return Live(version).answer(request, lambda _: join([_card(one) for one in questions]))

    async def answer(self, request: Request) -> Response:
        """Answer a question with what was entered in its card."""
        entered = await form_fields(request)
        question, future = self._waiting.get(entered.get("question", ""), (None, None))
        try:
            answer = await _answer_from(question, entered) if question is not None else None
        except FormError as error:
            return HTMLResponse(h("p", str(error), class_="warning"))
        # Another page may have answered meanwhile.
        if answer is None or future is None or future.done():
            text = "Nothing waits for this answer any more."
            return HTMLResponse(h("p", text, class_="warning"), 404)
        future.set_result(answer)
        return HTMLResponse(h("p", "answered", class_="muted"))


def _socket_path() -> Path | None:
    """Return where to listen; `None` if that is not possible here."""
    folder = inbox_folder()
    try:
        if folder is None:
            return None
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not is_private(folder):
            return None
        path = folder / f"{os.getpid()}.sock"
        path.unlink(missing_ok=True)  # of an earlier process with this number
    except OSError:
        return None
    return path


def _read_question(value: Any) -> Question:
    """Read the question of another process; what is not as agreed raises an error."""
    if not isinstance(value, dict):
        raise TypeError("a question is an object")
    data = cast("dict[str, Any]", value)
    schema = data.get("schema")
    return Question(
        kind="approval" if data["kind"] == "approval" else "question",
        server=str(data["server"]),
        tool=str(data.get("tool") or ""),
        message=str(data["message"]),
        source=str(data["source"]),
        arguments=dict(data.get("arguments") or {}),
        schema=dict(schema) if schema is not None else None,
        url=str(data["url"]) if data.get("url") else None,
        patient=bool(data.get("patient")),
    )


async def _answer_from(question: Question, entered: Mapping[str, str]) -> Mapping[str, Any]:
    action = entered.get("action", "")
    if question.kind == "question":
        if action != "accept":
            return {"action": "decline"}
        return {"action": "accept", "content": await _content(question.schema, entered)}
    if action not in {"approve", "session"}:
        return {"decision": "reject", "message": entered.get("why") or None}
    edited = arguments_from({}, {WHOLE: entered.get(WHOLE, "")})
    if json.dumps(edited, sort_keys=True) != json.dumps(question.arguments, sort_keys=True):
        return {"decision": "edit", "args": edited}
    return {"decision": "approve", "scope": action}


async def _content(
    schema: Mapping[str, Any] | None, entered: Mapping[str, str]
) -> Mapping[str, Any] | None:
    """Read what answers a server, with defaults for what was left empty.

    Raises:
        FormError: It is not what the server wants.
    """
    if schema is None:
        return None
    fields = fields_of(schema)
    defaults = {one.name: one.schema["default"] for one in fields if "default" in one.schema}
    content = {**defaults, **arguments_from(schema, entered)}
    checked = await prepare_in_bounded_time(await prepare(schema), content, tool="the answer")
    if checked.problems:
        raise FormError("; ".join(checked.problems))
    return checked.arguments


def _card(question: Question) -> Html:
    """Show a question with its form, whose buttons are always in view."""
    target = {"question": question.key}
    head: list[Child] = [h("code", question.server), " asks"]
    about: Html = text_block(question.message)
    if question.kind == "approval":
        head = ["May it call ", h("code", f"{question.server}/{question.tool}"), "?"]
        about = h("p", question.message, class_="muted")
        text = json.dumps(question.arguments, ensure_ascii=False, indent=1)
        if sanitize_for_terminal(text) != text:  # what a page would escape is escaped as JSON
            text = json.dumps(question.arguments, indent=1)
        lines = min(10, 1 + text.count("\n"))
        edit = h("textarea", text, name=WHOLE, rows=lines, spellcheck="false")
        why = h("input", name="why", type="text", placeholder="for the model, if you deny it")
        rows = [
            h("label", h("span", "Arguments; you may change them"), edit),
            h("label", h("span", "Reason"), why),
        ]
        buttons = (
            submit_button("Approve", "approve", class_="primary"),
            submit_button("Approve for this session", "session"),
            submit_button("Deny", "deny"),
        )
        form = form_shell(rows, buttons, action=_ANSWER, target=target)
    elif question.schema is None:
        visit = h("p", "The server wants you to visit this address: ", h("code", question.url))
        buttons = submit_button("Done", "accept", class_="primary"), _DECLINE
        form = form_shell(visit, buttons, action=_ANSWER, target=target)
    else:
        buttons = submit_button("Answer", "accept", class_="primary"), _DECLINE
        form = form_of(question.schema, action=_ANSWER, target=target, buttons=buttons)
    source = h("p", question.source, class_="source") if question.source else None
    return h("section", h("h2", head), source, about, form, class_="asks", id=f"q-{question.key}")


_ANSWER: Final = "/inbox/answer"
_DECLINE: Final = submit_button("Decline", "decline")
