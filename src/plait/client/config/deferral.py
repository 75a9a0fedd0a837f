"""Which tools agents are not shown at once, but find by searching."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from plait.client.config.raw_value import UNSET, RawValue, Unset
from plait.client.config.value_types import read_count, read_patterns

AUTO_TOKENS: Final = 10_000
"""From this on, `auto` keeps tools back: a twentieth of what usual models take in at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferral:
    """What is kept back, and when."""

    tools: tuple[object, ...] | None = None
    """What the tools are chosen by, as in `include`; `None` is all of them, an empty tuple none."""

    over_tokens: int | None = None
    """Only if the tools take more than this of a model's context; `None` is always."""

    native: bool = False
    """Whether the search of the model's provider is used, where it has one."""

    @property
    def is_off(self) -> bool:
        """Whether nothing is ever kept back."""
        return self.tools == ()


NO_DEFERRAL: Final = Deferral(tools=())

_WORDS: Final = {"auto": Deferral(over_tokens=AUTO_TOKENS), "native": Deferral(native=True)}


def read_deferral(raw: RawValue) -> Deferral | Unset:
    """Read true, false, `auto`, `native`, a number of tokens, or a list of tools."""
    if isinstance(raw.value, Deferral):
        return raw.value
    value = raw.scalar()
    if value is UNSET:
        return UNSET
    if isinstance(value, bool):
        return Deferral() if value else NO_DEFERRAL
    if isinstance(value, int):
        tokens = read_count(raw)
        return UNSET if tokens is UNSET else Deferral(over_tokens=tokens)
    if isinstance(value, str):
        if value in _WORDS:
            return _WORDS[value]
        hint = 'true, "auto", "native", a number of tokens, or a list of tools'
        return raw.reject("unknown_value", "is none of the ways to defer tools", f"write {hint}")
    return _read_tools(raw)


def read_server_deferral(raw: RawValue) -> Deferral | Unset:
    """Read true, false, or a list of tools; the other ways are about all servers together."""
    if isinstance(raw.value, Deferral):
        return raw.value
    value = raw.scalar()
    if value is UNSET:
        return UNSET
    if isinstance(value, bool):
        return Deferral() if value else NO_DEFERRAL
    if isinstance(value, str | int | float):
        return raw.wrong_type("true, false or a list of tools")
    return _read_tools(raw)


def _read_tools(raw: RawValue) -> Deferral | Unset:
    patterns = read_patterns(raw)
    return UNSET if patterns is UNSET else Deferral(tools=patterns)
