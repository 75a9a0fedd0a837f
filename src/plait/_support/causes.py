"""Removes secrets from an exception and its causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from plait._support.redact import Redactor
from plait.errors import PlaitError

MAX_TEXT_CHARS: Final = 16_384
"""The length of the text of a library's exception that is searched for secrets and kept."""


class HiddenCauseError(Exception):
    """Replaces an exception of a library whose text contains secrets or is very long."""


def without_secrets(error: BaseException, redact: Redactor) -> BaseException:
    """Return an exception and its causes without secrets.

    Exceptions without secrets are returned unchanged. A `PlaitError` is changed in place; any other
    is replaced by a redacted copy, or by a `HiddenCauseError` if it cannot be copied.
    """
    return _Cleaning(redact).clean(error)


class _Cleaning:
    """Walks a graph of exceptions, which may have cycles."""

    def __init__(self, redact: Redactor) -> None:
        self._redact = redact
        self._done: dict[int, BaseException] = {}

    def clean(self, error: BaseException) -> BaseException:
        if id(error) in self._done:
            return self._done[id(error)]
        clean = self._clean_itself(error)
        self._done[id(error)] = self._done[id(clean)] = clean
        suppressed = error.__suppress_context__
        cause, context = error.__cause__, error.__context__
        clean.__cause__ = None if cause is None else self.clean(cause)
        clean.__context__ = None if context is None else self.clean(context)
        clean.__suppress_context__ = suppressed
        return clean

    def _clean_itself(self, error: BaseException) -> BaseException:
        """Return an exception without secrets; its causes are left as they are."""
        if isinstance(error, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", error)
            inner = [self.clean(one) for one in group.exceptions]
            same = all(new is old for new, old in zip(inner, group.exceptions, strict=True))
            return group if same else group.derive(inner)
        if isinstance(error, PlaitError):
            if self._is_tainted(_texts_of(error)):
                error.message = self._redact(error.message)
                error.args = (error.message, *error.args[1:])
                notes: list[str] = getattr(error, "__notes__", [])
                notes[:] = map(self._redact, notes)
            return error
        # A `repr` of megabytes would hold up the event loop.
        texts = [] if is_longer(error.args, MAX_TEXT_CHARS) else _texts_of(error)
        copy: BaseException | None = None
        if texts and all(len(text) <= MAX_TEXT_CHARS for text in texts):
            if not self._is_tainted(texts):
                return error
            try:
                copy = type(error)(*map(self._value, error.args))
            except Exception:  # noqa: BLE001  # boundary: exceptions may take anything, in any way
                copy = None
        if copy is None or self._is_tainted(_texts_of(copy)):
            text = self._redact.beginning(str(error), MAX_TEXT_CHARS)
            copy = HiddenCauseError(f"{type(error).__name__}: {text}")
        copy.__traceback__ = error.__traceback__
        return copy

    def _is_tainted(self, texts: list[str]) -> bool:
        return any(self._redact(text) != text for text in texts)

    def _value(self, value: Any) -> Any:
        """Redact the strings in an argument, at any depth."""
        if isinstance(value, str):
            return self._redact(value)
        if isinstance(value, Mapping):
            items = cast("Mapping[Any, Any]", value).items()
            return {self._value(name): self._value(inner) for name, inner in items}
        if isinstance(value, list | tuple):
            return [self._value(inner) for inner in cast("list[Any]", value)]
        return value


def is_longer(value: object, limit: int) -> bool:
    """Return whether a value has more than `limit` characters and entries, at any depth."""
    waiting, length = [value], 0
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            entries = cast("Mapping[object, object]", one)
            length += len(entries)
            inner = [*entries.keys(), *entries.values()] if length <= limit else []
        elif isinstance(one, list | tuple):
            inner = cast("Sequence[object]", one)
            length += len(inner)
        else:
            inner = ()
            length += len(one) if isinstance(one, str | bytes) else 0
        if length > limit:
            return True
        waiting.extend(inner)
    return False


def _texts_of(error: BaseException) -> list[str]:
    return [str(error), repr(error), *map(str, getattr(error, "__notes__", ()))]
