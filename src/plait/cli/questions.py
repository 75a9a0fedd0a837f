"""Prompts on the terminal: forms and pages that servers request, and approval of calls."""

from __future__ import annotations

import asyncio
import json
import math
import re
import sys
import webbrowser
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import click
from mcp_types import (
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
)

from plait._support.exception_groups import one_line
from plait._support.threads import in_thread
from plait.cli.arguments import ReadText, parse_arguments, readable_schema
from plait.cli.exits import ArgumentError
from plait.cli.terminal import print_aside, read_typed_line, visible, visible_line
from plait.client.calls.approval import Approval, ApprovalRequest
from plait.client.catalog.validation import validator_for_schema
from plait.models.schemas.json_schema import as_list, as_schema

if TYPE_CHECKING:
    from plait.client.protocol.session import RequestContext

Kind = Literal["text", "integer", "number", "boolean", "choice", "choices"]

_YES = frozenset({"y", "yes", "true", "1"})
_NO = frozenset({"n", "no", "false", "0"})


class InvalidAnswerError(ValueError):
    """A value is not valid for its field; the message says what is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One value of an elicitation request."""

    name: str
    kind: Kind
    title: str = ""
    description: str = ""
    required: bool = False
    default: Any = None
    """The value of an empty answer; `None` if there is none."""
    choices: tuple[tuple[str, str], ...] = ()
    """The values to choose from, each with its title."""
    schema: Mapping[str, Any]

    @property
    def needs_value(self) -> bool:
        """Whether an empty answer is refused."""
        return self.required and self.default is None

    @property
    def hint(self) -> str:
        """A short description of valid input."""
        limits = ((hint, self.schema.get(keyword)) for keyword, (_, hint) in _LIMITS.items())
        hints = [hint.format(limit) for hint, limit in limits if hint and limit]
        return ", ".join(part for part in (_expected(self), *hints) if part)


def fields_of(schema: Mapping[str, Any]) -> tuple[FormField, ...]:
    """Return the fields of a requested schema, in its order."""
    root = readable_schema(schema)
    required = as_list(root.get("required"))
    properties = as_schema(root.get("properties"))
    return tuple(
        _field(name, as_schema(inner), required=name in required)
        for name, inner in properties.items()
    )


def _field(name: str, schema: Mapping[str, Any], *, required: bool) -> FormField:
    json_type = schema.get("type")
    choices = _choices(as_schema(schema.get("items")) if json_type == "array" else schema)
    kinds: dict[object, Kind] = {"integer": "integer", "number": "number", "boolean": "boolean"}
    kind: Kind = "choice" if choices else kinds.get(json_type, "text")
    field = FormField(
        name=name,
        kind="choices" if json_type == "array" else kind,
        title=str(schema.get("title") or ""),
        description=str(schema.get("description") or ""),
        required=required,
        choices=choices,
        schema=schema,
    )
    default = schema.get("default")
    try:
        return field if default is None else replace(field, default=check_answer(field, default))
    except InvalidAnswerError:
        return field


def _choices(schema: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the values of an enum, with their titles."""
    for key in ("oneOf", "anyOf"):
        options = [as_schema(option) for option in as_list(schema.get(key))]
        if options and all("const" in option for option in options):
            return tuple((str(item["const"]), str(item.get("title") or "")) for item in options)
    values = [str(value) for value in as_list(schema.get("enum"))]
    names = [str(name) for name in as_list(schema.get("enumNames"))]
    titles = names if len(names) == len(values) else [""] * len(values)
    return tuple(zip(values, titles, strict=True))


def parse_answer(field: FormField, text: str) -> Any:
    """Parse the input for a field, or raise `InvalidAnswerError`."""
    word = text.strip()
    match field.kind:
        case "boolean":
            if word.lower() in _YES | _NO:
                return word.lower() in _YES
            raise InvalidAnswerError("type y or n")
        case "integer" | "number":
            try:
                number = int(word) if field.kind == "integer" else float(word)
            except ValueError:
                raise InvalidAnswerError(f"type {_expected(field)}") from None
            return check_answer(field, number)
        case "choice":
            return _choice_for(field, word)
        case "choices":
            words = [item.strip() for item in word.split(",") if item.strip()]
            return check_answer(
                field, list(dict.fromkeys(_choice_for(field, item) for item in words))
            )
        case "text":
            return check_answer(field, text)


def check_answer(field: FormField, value: Any) -> Any:
    """Return a value if it is valid for a field, or raise `InvalidAnswerError`."""
    choices = {"enum": [value for value, _ in field.choices]} if field.choices else {}
    schema: dict[str, Any] = dict(field.schema)
    if field.kind == "choice":
        schema = choices
    elif field.kind == "choices":
        schema |= {"type": "array", "items": choices}
    elif field.kind == "text":
        schema["type"] = "string"
    for violation in validator_for_schema(schema).violations(value):
        text = f"must be {_expected(field) or 'text'}"
        if field.choices:
            listed = ", ".join(choice for choice, _ in field.choices)
            text = f"must be {'some' if field.kind == 'choices' else 'one'} of {listed}"
        if (limit := _LIMITS.get(violation.keyword)) is not None:
            text = limit[0].format(violation.expected)
        raise InvalidAnswerError(text)
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidAnswerError("must be a number")
    format_rule = _FORMATS.get(str(field.schema.get("format")))
    if isinstance(value, str) and field.kind == "text" and format_rule is not None:
        try:
            is_valid = bool(format_rule[1](value))
        except ValueError:
            is_valid = False
        if not is_valid:
            raise InvalidAnswerError(f"must be {_expected(field)}")
    return value


_LIMITS = {
    "minimum": ("must be at least {}", "at least {}"),
    "maximum": ("must be at most {}", "at most {}"),
    "exclusiveMinimum": ("must be more than {}", None),
    "exclusiveMaximum": ("must be less than {}", None),
    "multipleOf": ("must be a multiple of {}", None),
    "pattern": ("must match {}", None),
    "minLength": ("needs at least {} characters", "{} characters or more"),
    "maxLength": ("takes at most {} characters", "{} characters or fewer"),
    "minItems": ("needs at least {} values", "{} or more"),
    "maxItems": ("takes at most {} values", "{} or fewer"),
}
"""The refusal of a value for each keyword, and the hint beforehand."""


def _choice_for(field: FormField, word: str) -> str:
    """Find a choice by its number, value or title."""
    if not field.choices:
        return word
    if word.isdecimal() and 1 <= int(word) <= len(field.choices):
        return field.choices[int(word) - 1][0]
    for value, title in field.choices:
        if word in {value, title} or word.casefold() == value.casefold():
            return value
    raise InvalidAnswerError(f"type a number from 1 to {len(field.choices)}")


def _is_uri(text: str) -> bool:
    parts = urlsplit(text)
    return bool(parts.scheme and (parts.netloc or parts.path))


_FORMATS: dict[str, tuple[str, Callable[[str], object]]] = {
    "email": ("an address such as ann@example.com", re.compile(r"[^@\s]+@[^@\s]+").fullmatch),
    "uri": ("a URI such as https://example.com", _is_uri),
    "date": ("a date such as 2027-01-31", date.fromisoformat),
    "date-time": ("a time such as 2027-01-31T12:00:00Z", datetime.fromisoformat),
}
"""What is expected, and a check that returns something false or raises `ValueError`."""


def _expected(field: FormField) -> str:
    count = len(field.choices)
    values = f"numbers from 1 to {count}" if count else "values"
    return {
        "boolean": "y or n",
        "integer": "a whole number",
        "number": "a number",
        "choice": f"1 to {count}",
        "choices": f"{values}, separated by commas",
        "text": _FORMATS.get(str(field.schema.get("format")), ("",))[0],
    }[field.kind]


ReadLine = Callable[[], Awaitable[str | None]]
"""Returns the next line of input, or `None` at its end."""

NO_TERMINAL = "there is no terminal to prompt on; run it in one, or approve with --yes"
_KEYS_HELP = "Enter skips or takes the default; !decline declines, !cancel or Ctrl-D cancels"


class _RefusedError(Exception):
    def __init__(self, action: Any) -> None:
        super().__init__(action)
        self.action = action


@dataclass(frozen=True, slots=True, kw_only=True)
class Questioner:
    """Answers elicitation requests: from the command line, on the terminal, or by declining."""

    server: str
    tool: str | None = None
    answers: Sequence[str] | None = ()
    """Answers from the command line, as `KEY=VALUE`; `None` if the command takes none."""
    read_text: ReadText
    read_line: ReadLine | None = None
    """Reads input of the user; `None` without a terminal."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __call__(self, context: RequestContext, params: ElicitRequestParams) -> ElicitResult:
        """Answer a request."""
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
        content = self._known_answers(fields, schema)
        # With answers from the command line, prompt only for missing required fields.
        unanswered = [one for one in fields if one.name not in content]
        needed = [one for one in unanswered if one.required or not content]
        missing = [one for one in needed if self.read_line or one.needs_value]
        if missing or not content:
            if self.read_line is None:
                names = [one.name for one in fields if one.required] or [one.name for one in fields]
                how = "answer it on a terminal"
                if names and self.answers is not None:
                    how = f"answer it with {' '.join(f'--answer {name}=VALUE' for name in names)}"
                text = f"{self._who} asks {one_line(params.message)!r}; declined: {how}"
                print_aside("question", text, colour="yellow")
                raise _RefusedError("decline")
            self._show(params.message, "asks")
            if missing:
                click.echo(f"  {_KEYS_HELP}", err=True)
            for form_field in missing:
                await self._prompt(form_field, content)
            for name, value in content.items():
                click.echo(f"  {visible_line(name)} = {_value_label(value)}", err=True)
            answer = await self._input(f"send this to {self.server}? [Y/n] ")
            if answer.strip().lower() not in {"", "y", "yes"}:
                raise _RefusedError("decline")
        for form_field in fields:
            if form_field.default is not None:
                content.setdefault(form_field.name, form_field.default)
        return ElicitResult(action="accept", content=content)

    def _known_answers(self, fields: Sequence[FormField], schema: dict[str, Any]) -> dict[str, Any]:
        """Return the answers of the command line; an invalid one cancels the request."""
        known = {form_field.name: form_field for form_field in fields}
        # A server may send several requests; each takes the answers with its field names.
        words = [word for word in self.answers or () if word.partition("=")[0].rstrip(":") in known]
        content: dict[str, Any] = {}
        try:
            for name, value in parse_arguments(words, schema, self.read_text).items():
                try:
                    content[name] = check_answer(known[name], value)
                except InvalidAnswerError as error:
                    raise ArgumentError(f"{name}: {error}") from error
        except ArgumentError as error:
            print_aside("error", f"--answer {error}; the request is cancelled", colour="red")
            raise _RefusedError("cancel") from error
        return content

    async def _prompt(self, form_field: FormField, content: dict[str, Any]) -> None:
        """Prompt for one value until it is valid or skipped."""
        self._describe(form_field)
        while True:
            text = await self._input(f"{form_field.name}: ")
            if not text.strip():
                if not form_field.needs_value:
                    return
                click.echo("  a value is required", err=True)
                continue
            try:
                content[form_field.name] = parse_answer(form_field, text)
            except InvalidAnswerError as error:
                click.echo(f"  {visible(str(error))}", err=True)
            else:
                return

    def _describe(self, form_field: FormField) -> None:
        texts = map(visible_line, (form_field.title, form_field.description))
        about = ": ".join(text for text in texts if text)
        facts = [form_field.hint, "" if form_field.required else "optional"]
        if form_field.default is not None:
            facts.append(f"default {_value_label(form_field.default)}")
        hint = "; ".join(visible_line(fact) for fact in facts if fact)
        about, hint = f" - {about}" if about else "", f" ({hint})" if hint else ""
        click.echo(f"{visible_line(form_field.name)}{about}{hint}", err=True)
        for number, choice in enumerate(form_field.choices, 1):
            value, title = map(visible_line, choice)
            click.echo(f"  {number}) {f'{title} ({value})' if title else value}", err=True)

    async def _visit(self, params: ElicitRequestURLParams) -> ElicitResult:
        host = None  # only web pages are opened
        with suppress(ValueError):
            parts = urlsplit(params.url)
            is_page = parts.scheme in {"http", "https"} and params.url.isprintable()
            host = parts.hostname if is_page and " " not in params.url else None
        if host is None or self.read_line is None:
            reason = f"{params.url}; declined: there is no terminal"
            if host is None:
                reason = f"{params.url!r}, which is not a web page; declined"
            print_aside("question", f"{self._who} requests to open {reason}", colour="yellow")
            raise _RefusedError("decline")
        self._show(params.message, "requests to open a page")
        click.echo(f"  {visible(params.url)}", err=True)
        try:
            plain = host.encode("idna").decode("ascii")  # look-alike letters become Punycode
        except UnicodeError:
            plain = ascii(host)
        shown = visible(host) if plain == host else f"{plain} (displayed as {visible(host)})"
        click.echo(f"  host: {shown}", err=True)
        answer = await self._input("open it in the browser? [y/N] ")
        if answer.strip().lower() not in {"y", "yes"}:
            raise _RefusedError("decline")
        if not await in_thread(webbrowser.open, params.url):
            click.echo("  no browser available: open the page yourself", err=True)
        return ElicitResult(action="accept")

    async def _input(self, prompt: str) -> str:
        click.echo(visible(prompt), err=True, nl=False)
        line = None if self.read_line is None else await self.read_line()
        if line is None:
            click.echo("", err=True)
            raise _RefusedError("cancel")
        word = line.strip().lower()
        if word in {"!decline", "!cancel"}:
            raise _RefusedError(word[1:])
        return line

    def _show(self, message: str, request: str) -> None:
        """Show the message of a server, with every line marked, so that it cannot imitate plait."""
        print_aside("question", f"{self._who} {request}", colour="yellow")
        for line in visible(message).splitlines():
            click.echo(f"  | {line}", err=True)

    @property
    def _who(self) -> str:
        return f"{self.server}/{self.tool}" if self.tool else self.server


def person_at_terminal() -> ReadLine | None:
    """Return a function that reads lines from the terminal, or `None` without one."""
    # Prompts are shown on stderr, so that must be a terminal, too.
    return read_typed_line if sys.stdin.isatty() and sys.stderr.isatty() else None


def _value_label(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(visible_line(str(one)) for one in value) or "none"  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case _:
            return visible_line(str(value))


_ALWAYS = "always in this run, as answered to an earlier call"


class TerminalApproval:
    """Prompts on the terminal, one call at a time; remembers "always" for each tool."""

    def __init__(self, *, yes: bool = False, ask: bool = True) -> None:
        """Approve everything if `yes`; reject instead of prompting unless `ask`."""
        self._yes = yes
        self._ask = ask
        self._always: set[str] = set()
        self._turn = asyncio.Lock()

    async def __call__(self, request: ApprovalRequest) -> Approval:
        """Return the decision of the user; without a terminal, the call is rejected."""
        if self._yes:
            return Approval("approve", message="with --yes")
        if request.where in self._always:
            return Approval("approve", message=_ALWAYS, by="person")
        if not self._ask or not sys.stdin.isatty():
            return Approval("reject", message=NO_TERMINAL)
        async with self._turn:
            if request.where in self._always:  # answered while this request waited
                return Approval("approve", message=_ALWAYS, by="person")
            print_aside(
                "policy", f"{request.where} needs your approval: {request.reason}", colour="cyan"
            )
            for name, value in request.arguments.items():
                shown = json.dumps(value, ensure_ascii=False, default=str)
                click.echo(f"  {visible(name)}: {visible(shown)}", err=True)
            while True:
                click.echo("Call it? [y]es, [N]o, [a]lways in this run: ", nl=False, err=True)
                word = (await read_typed_line() or "").strip().lower()
                if word in {"a", "always"}:
                    self._always.add(request.where)
                if word in {"y", "yes", "a", "always"}:
                    return Approval("approve", by="person")
                if word in {"n", "no", ""}:
                    text = "the user rejected the call on the terminal"
                    return Approval("reject", message=text, by="person")
