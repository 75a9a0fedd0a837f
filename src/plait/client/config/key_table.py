"""Reading an object key by key with the help of a table of the keys that are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from plait._support.suggestions import did_you_mean, is_camel_case
from plait.client.config.raw_value import UNSET, RawValue, Reader, RejectedError, Unit


@dataclass(frozen=True, slots=True)
class Key:
    """A key that may be written: what it is called, how it is read, and where the value goes."""

    name: str
    """In snake_case; the camelCase spelling is understood too."""

    read: Reader

    target: str
    """The field that takes the value; a dot leads into `timeouts`."""

    aliases: tuple[str, ...] = ()
    """Further spellings."""

    unit: Unit | None = None
    """The unit that the name itself tells; without one, the spelling decides."""

    takes_null: bool = False
    """Whether null means something other than the default."""

    @property
    def spellings(self) -> frozenset[str]:
        """Every way to write the key."""
        names = (self.name, *self.aliases)
        return frozenset(names) | {camel_case(name) for name in names}


class KeyTable:
    """The keys that an object may have."""

    def __init__(
        self,
        keys: Iterable[Key],
        *,
        noun: str,
        ignored: Iterable[str] = (),
        misplaced: Mapping[str, str] | None = None,
    ) -> None:
        """Keep the keys by spelling.

        `noun` says in messages what the object is, `ignored` keys belong to somebody else, and
        `misplaced` ones are known but mean nothing here, each with the reason.
        """
        self.noun = noun
        self.ignored = frozenset(ignored)
        self._keys = {spelling: key for key in keys for spelling in key.spellings}
        self._misplaced = misplaced or {}

    @property
    def spellings(self) -> frozenset[str]:
        """Every way to write a key that has a meaning."""
        return frozenset(self._keys)

    def find(self, spelling: str) -> Key | None:
        """Return the key that is written this way."""
        return self._keys.get(spelling)

    def flag(self, spelling: str, entry: RawValue) -> None:
        """Record that a key has no meaning in this object."""
        reason = self._misplaced.get(spelling)
        if reason is None:
            message = f"is not a key of a {self.noun}"
            entry.location.flag("unknown_key", message, did_you_mean(spelling, self._keys))
        elif entry.value:
            entry.location.flag("misplaced_key", reason, "remove it")


def read_table(
    raw: RawValue, table: KeyTable, expected: str = "an object", suggestion: str | None = None
) -> dict[str, Any]:
    """Read the values of an object by target field, recording problems and skipping those values.

    Raises:
        RejectedError: The value is not an object; `expected` and `suggestion` say what it is.
    """
    values: dict[str, Any] = {}
    written: dict[str, str] = {}
    for spelling, entry in raw.entries(expected, suggestion):
        key = table.find(spelling)
        if spelling in table.ignored:
            continue
        if key is None:
            table.flag(spelling, entry)
        elif key.target in written:
            message = f'sets the same as "{written[key.target]}"'
            entry.location.error("duplicate_key", message, "keep one of them")
        elif entry.value is not None or key.takes_null:
            written[key.target] = spelling
            with suppress(RejectedError):
                value = key.read(replace(entry, unit=key.unit or unit_of(spelling)))
                if value is not UNSET:
                    values[key.target] = value
    return values


def read_valid_table(
    raw: RawValue, table: KeyTable, expected: str = "an object", suggestion: str | None = None
) -> dict[str, Any]:
    """Read the values of an object by target field.

    Raises:
        RejectedError: The value is not an object, or a value in it was rejected.
    """
    known = len(raw.location.problems.errors)
    values = read_table(raw, table, expected, suggestion)
    if len(raw.location.problems.errors) > known:
        raise RejectedError
    return values


def unit_of(spelling: str) -> Unit:
    """Say what a bare number means under a key: camelCase keys are in milliseconds."""
    return "milliseconds" if is_camel_case(spelling) else "seconds"


def camel_case(name: str) -> str:
    """Spell a snake_case name in camelCase."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)
