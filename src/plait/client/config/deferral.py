"""Which tools agents are not shown at once, but find by searching."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from plait.client.config.value_types import read_count, read_patterns

if TYPE_CHECKING:
    from plait.client.config.raw_value import RawValue

AUTO_TOKENS: Final = 10_000
"""`auto` defers tools above this size: a twentieth of a usual context window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferral:
    """Which tools are deferred, and when."""

    tools: tuple[object, ...] | None = None
    """Patterns as in `include`; `None` is all tools, an empty tuple none."""
    over_tokens: int | None = None
    """Defer only if the tools take more tokens than this; `None` is always."""
    native: bool = False
    """Whether to use the tool search of the model's provider, if it has one."""

    @property
    def is_off(self) -> bool:
        """Whether no tool is ever deferred."""
        return self.tools == ()


NO_DEFERRAL: Final = Deferral(tools=())
_WORDS: Final = {"auto": Deferral(over_tokens=AUTO_TOKENS), "native": Deferral(native=True)}


def read_deferral(raw: RawValue) -> Deferral:
    """Read true, false, `auto`, `native`, a number of tokens, or a list of tools."""
    value = raw.scalar()
    if isinstance(value, int) and not isinstance(value, bool):
        return Deferral(over_tokens=read_count(raw))
    if isinstance(value, str):
        if value in _WORDS:
            return _WORDS[value]
        hint = 'write true, "auto", "native", a number of tokens, or a list of tools'
        raw.reject("unknown_value", "is not a way to defer tools", hint)
    return read_server_deferral(raw)


def read_server_deferral(raw: RawValue) -> Deferral:
    """Read true, false, or a list of tools; the other ways apply to all servers together."""
    if isinstance(raw.value, Deferral):
        return raw.value
    value = raw.scalar()
    if isinstance(value, bool):
        return Deferral() if value else NO_DEFERRAL
    if isinstance(value, str | int | float):
        raw.reject_type("true, false or a list of tools")
    return Deferral(tools=read_patterns(raw))
