"""The tools of the compact profile: six that reach every mode, each over tools of the full one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from plait.reasoning.arguments import invalid_argument
from plait.reasoning.registry import TOOLS, UNLISTED

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTool:
    """A tool whose `selector` argument names one of its routes to a tool of the full profile."""

    name: str
    description: str
    properties: Mapping[str, Schema]
    routes: Mapping[str, str]
    """Names of tools without `reasoning_`, by the value of the selector."""
    selector: str = "action"
    default: str | None = None
    """The route without a selector; `None` if it is required."""
    required: tuple[str, ...] = ()

    @property
    def schema(self) -> Schema:
        """The schema of its arguments."""
        names: Schema = {}
        needed = [*self.required]
        if len(self.routes) > 1:
            names[self.selector] = {"type": "string", "enum": [*self.routes]}
            if self.default is None:
                needed.insert(0, self.selector)
            else:
                names[self.selector]["default"] = self.default
        schema: Schema = {"type": "object", "properties": {**names, **self.properties}}
        return {**schema, "required": needed} if needed else schema

    @property
    def is_destructive(self) -> bool:
        """Whether a route deletes something."""
        every = {**TOOLS, **UNLISTED}
        return any(every[f"reasoning_{route}"].destructive for route in self.routes.values())


def _text(description: str = "") -> Schema:
    return {"type": "string", **({"description": description} if description else {})}


def _number(description: str = "") -> Schema:
    return {**_text(description), "type": "number"}


def _texts(description: str = "") -> Schema:
    return {**_text(description), "type": "array", "items": {"type": "string"}}


def _objects(shape: str) -> Schema:
    """Describe a list of objects in words: schemas of their fields would be three times as long."""
    return {"type": "array", "items": {"type": "object"}, "description": shape}


def _object(shape: str) -> Schema:
    return {"type": "object", "description": shape}


_REFERENCE: Final[Schema] = {"type": ["integer", "string"]}

_TOOLS: Final = (
    CompactTool(
        name="reasoning_think",
        description="Write down one step of your reasoning; it is kept on the branch you follow. "
        "One problem, one session_id (left out, a session begins). Ids are short: t3 is a "
        "thought, b2 a branch, n7 a graph node, c1 a checkpoint.",
        properties={
            "content": _text(),
            "session_id": _text(),
            "confidence": _number("0-1"),
            "revises_thought": {**_REFERENCE, "description": "A thought it corrects."},
            "branch_from_thought": {**_REFERENCE, "description": "Begin a branch there."},
            "branch_id": _text("Go on with it; or name a new one."),
            "total_thoughts": {"type": "integer", "description": "Estimate."},
            "next_thought_needed": {"type": "boolean"},
            "needs_more_thoughts": {"type": "boolean"},
        },
        routes={"linear": "linear"},
        default="linear",
        required=("content",),
    ),
    CompactTool(
        name="reasoning_explore",
        description="Open several ways from a thought. tree: 2-4 branches to follow one by one. "
        "divergent: 2-5 perspectives that differ in kind, and a synthesis.",
        properties={
            "content": _text("Where to start from."),
            "session_id": _text(),
            "branch_id": _text(),
            "branches": _objects("tree: {thought, confidence 0-1, rationale}, 2-4"),
            "recommended_branch": {"type": "integer", "description": "Index."},
            "cross_refs": _objects(
                "tree: {to_branch, type: supports|contradicts|extends|alternative|depends, reason}"
            ),
            "perspectives": _objects("divergent: {thought, novelty 0-1, viability 0-1}, 2-5"),
            "synthesis": _text("divergent"),
        },
        routes={"tree": "tree", "divergent": "divergent"},
        selector="mode",
        default="tree",
        required=("content",),
    ),
    CompactTool(
        name="reasoning_steer",
        description="focus: follow a branch. complete, abandon: end one. checkpoint: keep the "
        "state under a name, before a risky way. backtrack: return to a checkpoint and take "
        "another way; nothing is lost. branches, checkpoints: list them.",
        properties={
            "session_id": _text(),
            "branch_id": _text(),
            "checkpoint_id": _text(),
            "name": _text("checkpoint"),
            "thought": _text("backtrack: first step of the other way"),
        },
        routes={
            "focus": "tree_focus",
            "complete": "tree_complete",
            "abandon": "tree_complete",
            "branches": "tree_list",
            "checkpoint": "checkpoint_create",
            "checkpoints": "checkpoint_list",
            "backtrack": "backtrack",
        },
        required=("session_id",),
    ),
    CompactTool(
        name="reasoning_review",
        description="Judge reasoning. reflect: examine a thought or a text, and improve it. "
        "evaluate: measure the session. advise: which way of reasoning fits a task.",
        properties={
            "session_id": _text(),
            "thought_id": _text(),
            "content": _text("Text or task."),
            "reflection": _object(
                "reflect: {analysis, quality_score 0-1, strengths[], weaknesses[], "
                "recommendations[], improved_thought}"
            ),
            "hints": _texts("advise"),
        },
        routes={"reflect": "reflection", "evaluate": "reflection_evaluate", "advise": "auto"},
        default="reflect",
    ),
    CompactTool(
        name="reasoning_graph",
        description="Solve a problem of many parts. init: begin with a thought. generate: "
        "continue a node. score: judge it. aggregate: join nodes. refine: improve one. prune: cut "
        "weak ends. finalize: mark conclusions. state: show it.",
        properties={
            "session_id": _text(),
            "graph_id": _text("If the session has several."),
            "content": _text("init: the first thought."),
            "problem": _text("init: the problem."),
            "node_id": _text(),
            "node_ids": _texts("aggregate: 2 or more"),
            "continuations": _objects("generate: {thought, confidence 0-1, rationale}, 1-10"),
            "scores": _object("score: {overall_score 0-1, rationale}"),
            "aggregation": _object(
                "aggregate: {aggregated_thought, confidence, synthesis_approach, "
                "conflicts_resolved[]}"
            ),
            "refinement": _object("refine: {refined_thought, confidence, improvements_made[]}"),
            "threshold": _number("prune: cut below it."),
            "terminal_node_ids": _texts("finalize: else the best 3"),
        },
        routes={
            "init": "got_init",
            "generate": "got_generate",
            "score": "got_score",
            "aggregate": "got_aggregate",
            "refine": "got_refine",
            "prune": "got_prune",
            "finalize": "got_finalize",
            "state": "got_state",
        },
    ),
    CompactTool(
        name="reasoning_session",
        description="where: question, active and open branches, best nodes, budget and next move. "
        "conclude: close it with the answer.",
        properties={
            "session_id": _text(),
            "conclusion": _text("conclude: the answer."),
            "confidence": _number("0-1"),
            "thought_ids": _texts("conclude: what it rests on"),
            "query": _text("search"),
            "format": _text("export: markdown|mermaid|dot|svg|json"),
            "limit": {"type": "integer"},
            "offset": {"type": "integer"},
            "reason": _text("reopen"),
        },
        routes={
            "where": "session_where",
            "conclude": "session_conclude",
            "list": "session_list",
            "get": "session_get",
            "search": "session_search",
            "export": "session_export",
            "fork": "session_fork",
            "reopen": "session_reopen",
            "delete": "session_delete",
        },
        default="where",
    ),
)

COMPACT_TOOLS: Final[Mapping[str, CompactTool]] = {tool.name: tool for tool in _TOOLS}
"""By name, in the order in which they are listed."""

_FIXED: Final[Mapping[str, Mapping[str, Any]]] = {
    "abandon": {"completed": False},
    "checkpoint": {"include_snapshot": False},
    "checkpoints": {"include_snapshot": False},
    "state": {"include_content": True},
}
"""Arguments that a route always has."""

_CALLS: Final[Mapping[str, tuple[CompactTool, str]]] = {
    f"reasoning_{route}": (tool, action)
    for tool in _TOOLS
    # The first of two actions with the same route counts.
    for action, route in reversed([*tool.routes.items()])
}


@dataclass(frozen=True, slots=True)
class Routed:
    """A call of a tool of the full profile."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])


def routed(tool: CompactTool, arguments: Mapping[str, Any] | None) -> Routed:
    """Return the call that a call of a compact tool stands for.

    Raises:
        RefusedError: The selector names nothing.
    """
    given = {name: value for name, value in (arguments or {}).items() if value is not None}
    action: object = tool.default
    if len(tool.routes) > 1:
        action = given.pop(tool.selector, tool.default)
    route = tool.routes.get(action) if isinstance(action, str) else None
    if route is None:
        raise invalid_argument(tool.selector, f"must be one of {', '.join(tool.routes)}")
    return Routed(f"reasoning_{route}", {**given, **_FIXED.get(str(action), {})})


def compact_call(name: str) -> str:
    """Return how a tool of the full profile is called in the compact one."""
    if name not in _CALLS:
        return name
    tool, action = _CALLS[name]
    is_default = action == tool.default or len(tool.routes) == 1
    return tool.name if is_default else f"{tool.name} {tool.selector}={action}"


_FULL_NAME: Final = re.compile(r"\breasoning_[a-z_]+")


def compact_text(text: str) -> str:
    """Name the tools of the compact profile in a text that names those of the full one."""
    return _FULL_NAME.sub(lambda match: compact_call(match[0]), text)
