"""Questions of servers, put to the person at the terminal."""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import click
from mcp.client import ClientRequestContext
from mcp_types import (
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
)

from plait._support.exception_groups import one_line
from plait._support.threads import in_thread
from plait.cli.arguments import ArgumentError, ReadText, parse_arguments
from plait.cli.forms import FormField, UnfitError, checked, fields_of, parsed
from plait.cli.terminal import is_terminal, print_aside, visible

ReadLine = Callable[[], Awaitable[str | None]]
"""Returns the next line that a person types, or `None` at the end of the input."""

_LONGEST_LINE = 65536
_WAYS_OUT = "Enter skips or takes the default; !decline says no, !cancel or Ctrl-D gives no answer"


class _RefusedError(Exception):
    """The person does not answer."""

    def __init__(self, action: Any) -> None:
        super().__init__(action)
        self.action = action


@dataclass(frozen=True, slots=True, kw_only=True)
class Questioner:
    """Answers questions of a server: beforehand, on the terminal, or not at all."""

    server: str
    tool: str | None = None
    """The tool whose call it answers for; `None` where it is not known."""

    answers: Sequence[str] | None = ()
    """Answers from the command line, as `KEY=VALUE`; `None` where none can be given."""

    read_text: ReadText
    """Reads the files that answers name."""

    read_line: ReadLine | None = None
    """Where a person types; `None` if nobody is there."""

    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a question is on the terminal."""

    async def __call__(
        self, context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult:
        """Answer one question."""
        del context
        async with self._turn:
            try:
                if isinstance(params, ElicitRequestURLParams):
                    return await self._visit(params)
                return await self._fill_in(params)
            except _RefusedError as refused:
                return ElicitResult(action=refused.action)

    async def _fill_in(self, params: ElicitRequestFormParams) -> ElicitResult:
        schema: dict[str, Any] = dict(params.requested_schema)
        fields = fields_of(schema)
        content = self._given(fields, schema)
        # Whoever gives answers beforehand wants to be asked only for what is missing.
        left = [
            one
            for one in fields
            if one.name not in content and (one.required or not content) and self._is_open(one)
        ]
        if left or not content:
            if self.read_line is None:
                self._say_how(params.message, fields)
                raise _RefusedError("decline")
            self._show(params.message, "asks")
            if left:
                click.echo(f"  {_WAYS_OUT}", err=True)
            for one in left:
                await self._ask(one, content)
            await self._confirm(content)
        for one in fields:
            if one.default is not None:
                content.setdefault(one.name, one.default)
        return ElicitResult(action="accept", content=content)

    def _is_open(self, one: FormField) -> bool:
        """Say whether a field must be asked for, given that nobody may be there."""
        return self.read_line is not None or (one.required and one.default is None)

    def _given(self, fields: Sequence[FormField], schema: dict[str, Any]) -> dict[str, Any]:
        """Take what was answered on the command line; what does not fit ends the question."""
        known = {one.name: one for one in fields}
        # A server may ask several questions; each takes the answers that are meant for it.
        words = [word for word in self.answers or () if word.partition("=")[0].rstrip(":") in known]
        content: dict[str, Any] = {}
        try:
            for name, value in parse_arguments(words, schema, self.read_text).items():
                content[name] = _fitting(known[name], value)
        except ArgumentError as error:
            print_aside("error", f"--answer {error}; the question is cancelled", colour="red")
            raise _RefusedError("cancel") from error
        return content

    async def _ask(self, one: FormField, content: dict[str, Any]) -> None:
        """Ask for one value until it fits, or is left out."""
        self._describe(one)
        while True:
            text = await self._typed(f"{one.name}: ")
            if not text.strip():
                if one.default is not None or not one.required:
                    return
                click.echo("  this one is needed", err=True)
                continue
            try:
                content[one.name] = parsed(one, text)
            except UnfitError as error:
                click.echo(f"  {visible(str(error))}", err=True)
            else:
                return

    def _describe(self, one: FormField) -> None:
        about = ": ".join(part for part in (_line(one.title), _line(one.description)) if part)
        facts = [one.hint, "" if one.required else "optional"]
        if one.default is not None:
            facts.append(f"default {_shown(one.default)}")
        said = "; ".join(_line(fact) for fact in facts if fact)
        click.echo(
            f"{_line(one.name)}{f' - {about}' if about else ''}{f' ({said})' if said else ''}",
            err=True,
        )
        for number, (value, title) in enumerate(one.choices, 1):
            named = f"{_line(title)} ({_line(value)})" if title else _line(value)
            click.echo(f"  {number}) {named}", err=True)

    async def _confirm(self, content: dict[str, Any]) -> None:
        for name, value in content.items():
            click.echo(f"  {_line(name)} = {_shown(value)}", err=True)
        answer = await self._typed(f"send this to {self.server}? [Y/n] ")
        if answer.strip().lower() not in {"", "y", "yes"}:
            raise _RefusedError("decline")

    async def _visit(self, params: ElicitRequestURLParams) -> ElicitResult:
        host = _host_of(params.url)
        if host is None:
            text = f"{self._who} wants you to open {params.url!r}, which is no web page; declined"
            print_aside("question", text, colour="yellow")
            raise _RefusedError("decline")
        if self.read_line is None:
            text = f"{self._who} wants you to open {params.url}; declined: nobody is here to ask"
            print_aside("question", text, colour="yellow")
            raise _RefusedError("decline")
        self._show(params.message, "wants you to open a page")
        click.echo(f"  {visible(params.url)}", err=True)
        click.echo(f"  host: {_plain_host(host)}", err=True)
        answer = await self._typed("open it in the browser? [y/N] ")
        if answer.strip().lower() not in {"y", "yes"}:
            raise _RefusedError("decline")
        if not await in_thread(webbrowser.open, params.url):
            click.echo("  no browser can be opened here: open the page yourself", err=True)
        return ElicitResult(action="accept")

    async def _typed(self, prompt: str) -> str:
        click.echo(visible(prompt), err=True, nl=False)
        line = None if self.read_line is None else await self.read_line()
        if line is None:
            click.echo("", err=True)
            raise _RefusedError("cancel")
        word = line.strip().lower()
        if word in {"!decline", "!cancel"}:
            raise _RefusedError(word[1:])
        return line

    def _show(self, message: str, asks: str) -> None:
        """Show what a server says, marked line by line, so that it cannot pose as plait."""
        print_aside("question", f"{self._who} {asks}", colour="yellow")
        for line in visible(message).splitlines():
            click.echo(f"  | {line}", err=True)

    def _say_how(self, message: str, fields: Sequence[FormField]) -> None:
        wanted = [one.name for one in fields if one.required] or [one.name for one in fields]
        answers = " ".join(f"--answer {name}=VALUE" for name in wanted)
        beforehand = wanted and self.answers is not None
        how = f"answer beforehand with {answers}" if beforehand else "answer it on a terminal"
        text = f"{self._who} asks {one_line(message)!r}; declined: {how}"
        print_aside("question", text, colour="yellow")

    @property
    def _who(self) -> str:
        return f"{self.server}/{self.tool}" if self.tool else self.server


def person_at_terminal() -> ReadLine | None:
    """Return what reads from the person at the terminal, or `None` if there is none."""
    # Questions are shown on stderr: with that in a file, nobody would see them.
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        return None

    async def read_line() -> str | None:
        # Not through `sys.stdin`: a thread that waits in it would stop the program from ending.
        data = await in_thread(os.read, sys.stdin.fileno(), _LONGEST_LINE)
        return (
            data.decode(sys.stdin.encoding or "utf-8", "replace").rstrip("\r\n") if data else None
        )

    return read_line


def _fitting(one: FormField, value: Any) -> Any:
    try:
        return checked(one, value)
    except UnfitError as error:
        raise ArgumentError(f"{one.name}: {error}") from error


def _line(text: str) -> str:
    return visible(" ".join(text.split()))


def _shown(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(_line(str(one)) for one in value) or "none"  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case _:
            return _line(str(value))


def _host_of(url: str) -> str | None:
    """Find the host of a web page; `None` if the address is none."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    is_page = parts.scheme in {"http", "https"} and url.isprintable() and " " not in url
    return parts.hostname if is_page else None


def _plain_host(name: str) -> str:
    """Write a host so that letters which look like others do not deceive."""
    try:
        plain = name.encode("idna").decode("ascii")
    except UnicodeError:
        plain = ascii(name)
    return visible(name) if plain == name else f"{plain} (written {visible(name)})"
