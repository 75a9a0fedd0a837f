"""Every tool of the server, in the order in which they are listed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, Final, get_args, get_type_hints

from plait.reasoning.call_context import Run
from plait.reasoning.fields import Params
from plait.reasoning.modes import (
    auto,
    checkpoints,
    divergent,
    got,
    linear,
    reflection,
    sessions,
    solve,
    tree,
)
from plait.reasoning.results import ResultPart


@dataclass(frozen=True)
class Tool:
    """A tool: `run` has its name, its description, and the models of its arguments and result."""

    run: Run
    title: str
    _: KW_ONLY
    uses_model: bool = False
    """Whether it may send a request to a model."""
    writes: str | None = None
    """The argument with which the caller replaces the model."""
    read_only: bool = False
    destructive: bool = False
    """Whether it deletes something."""
    idempotent: bool = False
    """Whether a second call with the same arguments changes nothing more."""

    @property
    def name(self) -> str:
        """The name under which it is listed."""
        return f"reasoning_{self.run.__name__}"

    @property
    def description(self) -> str:
        """The description that a model reads."""
        return " ".join((self.run.__doc__ or "").split())

    def lacks(self, arguments: Mapping[str, Any], *, is_host: bool) -> list[str]:
        """Return the arguments that a caller must still add."""
        fields = self.params.model_fields
        lacking = [name for name, field in fields.items() if field.is_required()]
        if is_host and self.writes is not None:
            lacking.append(self.writes)
        if is_host and "synthesis" in fields:
            lacking.append("synthesis")
        return [name for name in lacking if name not in arguments]

    @cached_property
    def params(self) -> type[Params]:
        """The model of its arguments."""
        return get_type_hints(self.run)["params"]

    @cached_property
    def result(self) -> type[ResultPart]:
        """The model of its result."""
        return get_args(get_type_hints(self.run)["return"])[0]


_TOOLS: Final = (
    Tool(linear.linear, "Linear reasoning", uses_model=True),
    Tool(tree.tree, "Branch out", uses_model=True, writes="branches"),
    Tool(tree.tree_focus, "Follow a branch", idempotent=True),
    Tool(tree.tree_list, "List branches", read_only=True),
    Tool(tree.tree_complete, "End a branch", idempotent=True),
    Tool(divergent.divergent, "Other points of view", uses_model=True, writes="perspectives"),
    Tool(reflection.reflection, "Reflect", uses_model=True, writes="reflection"),
    Tool(reflection.reflection_evaluate, "Evaluate a session", read_only=True),
    Tool(checkpoints.backtrack, "Backtrack", uses_model=True, writes="thought"),
    Tool(checkpoints.checkpoint_create, "Make a checkpoint"),
    Tool(checkpoints.checkpoint_list, "List checkpoints", read_only=True),
    Tool(auto.auto, "Choose a mode", uses_model=True),
    Tool(got.got_init, "Begin a graph"),
    Tool(got.got_generate, "Continue a node", uses_model=True, writes="continuations"),
    Tool(got.got_score, "Judge a node", uses_model=True, writes="scores"),
    Tool(got.got_aggregate, "Join nodes", uses_model=True, writes="aggregation"),
    Tool(got.got_refine, "Refine a node", uses_model=True, writes="refinement"),
    Tool(got.got_prune, "Prune the graph", destructive=True, idempotent=True),
    Tool(got.got_finalize, "Draw conclusions"),
    Tool(got.got_state, "Show the graph", read_only=True),
    Tool(solve.solve, "Solve exactly", uses_model=True, writes="problem"),
    Tool(sessions.session_list, "List sessions", read_only=True),
    Tool(sessions.session_get, "Read a session", read_only=True),
    Tool(sessions.session_search, "Search thoughts", read_only=True),
    Tool(sessions.session_export, "Export a session", read_only=True),
    Tool(sessions.session_delete, "Delete a session", destructive=True, idempotent=True),
    Tool(sessions.session_fork, "Copy a session"),
    Tool(sessions.session_conclude, "Conclude a session"),
    Tool(sessions.session_reopen, "Reopen a session"),
)

TOOLS: Final[Mapping[str, Tool]] = {tool.name: tool for tool in _TOOLS}

_WHERE: Final = Tool(sessions.session_where, "Where am I", read_only=True)

UNLISTED: Final[Mapping[str, Tool]] = {_WHERE.name: _WHERE}
"""Tools that only the compact profile offers."""
