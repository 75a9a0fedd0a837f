"""Reading an object key by key, with a table of the known keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from plait._support.suggestions import did_you_mean, is_camel_case
from plait.client.config.raw_value import UNSET, RawValue, Reader, RejectedError, Unit


@dataclass(frozen=True, slots=True)
class Key:
    """A key: its name, its reader, and the field that takes the value."""

    name: str
    """In snake_case; camelCase is accepted too."""
    read: Reader
    field: str = ""
    """The field that takes the value, by default the name; `timeouts.x` is one of `timeouts`."""
    aliases: tuple[str, ...] = ()
    unit: Unit | None = None
    """The unit of a number; without one, the spelling decides (see `unit_of`)."""
    takes_null: bool = False
    """Whether null means something other than the default."""

    @property
    def target(self) -> str:
        """The field that takes the value."""
        return self.field or self.name

    @property
    def spellings(self) -> frozenset[str]:
        """All spellings of the key."""
        names = (self.name, *self.aliases)
        return frozenset(names) | {camel_case(name) for name in names}


def keys_with(read: Reader, *names: str) -> Iterable[Key]:
    """Create keys with the same reader."""
    return (Key(name, read) for name in names)


class KeyTable:
    """The keys that an object may have."""

    def __init__(
        self,
        keys: Iterable[Key],
        *,
        noun: str,
        ignored: Iterable[str] = (),
        misplaced: Mapping[str, str] | None = None,
        strict: bool = False,
    ) -> None:
        """Index the keys by spelling.

        `noun` names the object in messages, `ignored` keys belong to other programs, and
        `misplaced` keys are known but have no meaning here, each with the reason. If `strict`, an
        unknown key is an error in files too.
        """
        self.noun = noun
        self.ignored = frozenset(ignored)
        self._keys = {spelling: key for key in keys for spelling in key.spellings}
        self._misplaced = misplaced or {}
        self._strict = strict

    @property
    def spellings(self) -> frozenset[str]:
        """All spellings of all keys."""
        return frozenset(self._keys)

    def find(self, spelling: str) -> Key | None:
        """Return the key with this spelling."""
        return self._keys.get(spelling)

    def flag(self, spelling: str, entry: RawValue) -> None:
        """Record that a key has no meaning in this object."""
        reason = self._misplaced.get(spelling)
        if reason is None:
            message, hint = f"is not a key of a {self.noun}", did_you_mean(spelling, self._keys)
            if self._strict:
                hint = hint or f"known are {', '.join(sorted(self._keys))}"
                entry.location.error("unknown_key", message, hint)
            else:
                entry.location.flag("unknown_key", message, hint)
        elif entry.value:
            entry.location.flag("misplaced_key", reason, "remove it")


def read_table(
    raw: RawValue, table: KeyTable, expected: str = "an object", suggestion: str | None = None
) -> dict[str, Any]:
    """Read the values of an object by target field, leaving out rejected ones.

    A value that is not an object is rejected with `expected` and `suggestion`.
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
    """Read the values of an object by target field; reject the object if one is rejected."""
    known = len(raw.location.problems.errors)
    values = read_table(raw, table, expected, suggestion)
    if len(raw.location.problems.errors) > known:
        raise RejectedError
    return values


def unit_of(spelling: str) -> Unit:
    """Return the unit of a bare number: milliseconds under camelCase keys, else seconds."""
    return "milliseconds" if is_camel_case(spelling) else "seconds"


def camel_case(name: str) -> str:
    """Spell a snake_case name in camelCase."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)
