"""The compact profile: seven tools that reach every mode, with short ids and results.

Each stands for tools of the full profile; a result has at most 400 characters beside the thoughts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from plait._support.exception_groups import one_line
from plait.reasoning.arguments import invalid_argument
from plait.reasoning.modes.sessions import LEFT_MARK
from plait.reasoning.results import Result, ResultPart, result_data
from plait.reasoning.storage.port import Storage
from plait.reasoning.tool_registry import TOOLS, UNLISTED

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
        description="Write down one step of your reasoning, on the branch you follow. One problem, "
        "one session_id (left out, a session begins). Ids: t3 is a thought, b2 a branch, n7 a "
        "graph node, c1 a checkpoint.",
        properties={
            "content": _text(),
            "session_id": _text(),
            "confidence": _number("0-1"),
            "revises_thought": {**_REFERENCE},
            "branch_from_thought": {**_REFERENCE},
            "branch_id": _text("To go on with, or a new name"),
            "total_thoughts": {"type": "integer"},
            "next_thought_needed": {"type": "boolean"},
            "needs_more_thoughts": {"type": "boolean"},
        },
        routes={"linear": "linear"},
        default="linear",
        required=("content",),
    ),
    CompactTool(
        name="reasoning_explore",
        description="Open ways from a thought. tree: 2-4 branches to follow one by one. "
        "divergent: 2-5 perspectives that differ in kind.",
        properties={
            "content": _text(),
            "session_id": _text(),
            "branch_id": _text(),
            "branches": _objects("tree: {thought, confidence 0-1, rationale}, 2-4"),
            "recommended_branch": {"type": "integer"},
            "cross_refs": _objects(
                "tree: {to_branch, type: supports|contradicts|extends|alternative|depends, reason}"
            ),
            "perspectives": _objects("divergent: {thought, novelty 0-1, viability 0-1}, 2-5"),
            "synthesis": _text(),
        },
        routes={"tree": "tree", "divergent": "divergent"},
        selector="mode",
        default="tree",
        required=("content",),
    ),
    CompactTool(
        name="reasoning_steer",
        description="focus: follow a branch. complete, abandon: end one. checkpoint: keep the "
        "state before a risky way. backtrack: return to a checkpoint and take another way; "
        "nothing is lost. branches, checkpoints: list them.",
        properties={
            "session_id": _text(),
            "branch_id": _text(),
            "checkpoint_id": _text(),
            "name": _text(),
            "thought": _text("backtrack: step of the other way"),
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
        description="reflect: examine a thought or a text, and improve it. evaluate: measure the "
        "session. advise: which way of reasoning fits a task.",
        properties={
            "session_id": _text(),
            "thought_id": _text(),
            "content": _text(),
            "reflection": _object(
                "reflect: {analysis, quality_score 0-1, strengths[], weaknesses[], "
                "recommendations[], improved_thought}"
            ),
            "hints": _texts(),
        },
        routes={"reflect": "reflection", "evaluate": "reflection_evaluate", "advise": "auto"},
        default="reflect",
    ),
    CompactTool(
        name="reasoning_graph",
        description="A graph of thoughts. init: begin with a thought. generate: "
        "continue a node. score: judge it. aggregate: join nodes. refine: improve one. prune: cut "
        "weak ends. finalize: mark conclusions. state: show it.",
        properties={
            "session_id": _text(),
            "graph_id": _text(),
            "content": _text("init: first thought"),
            "problem": _text(),
            "node_id": _text(),
            "node_ids": _texts(),
            "continuations": _objects("generate: {thought, confidence 0-1, rationale}, 1-10"),
            "scores": _object("score: {overall_score 0-1, rationale}"),
            "aggregation": _object(
                "aggregate: {aggregated_thought, confidence, synthesis_approach, "
                "conflicts_resolved[]}"
            ),
            "refinement": _object("refine: {refined_thought, confidence, improvements_made[]}"),
            "threshold": _number(),
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
        name="reasoning_solve",
        description="Answer a problem of constraints exactly, by a solver: schedules, seating, "
        "budgets, routes, rules. check: test a solution. sample: draw until one holds. help: "
        "forms.",
        properties={
            "problem": _object(
                "{variables: {mon: [Ann, Ben], n: {min, max}}, constraints: [{rule: 'mon != Ann', "
                "says}], minimize}"
            ),
            "content": _text(),
            "session_id": _text(),
            "branch_id": _text(),
            "solution": {"type": "object"},
        },
        routes={"solve": "solve", "check": "solve", "sample": "solve", "help": "solve"},
        default="solve",
    ),
    CompactTool(
        name="reasoning_session",
        description="where: question, active and open branches, best nodes, budget and next move. "
        "conclude: close it with the answer.",
        properties={
            "session_id": _text(),
            "conclusion": _text(),
            "confidence": _number("0-1"),
            "thought_ids": _texts(),
            "query": _text(),
            "format": _text("markdown|mermaid|dot|svg|json"),
            "limit": {"type": "integer"},
            "offset": {"type": "integer"},
            "reason": _text(),
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
    "check": {"action": "check"},
    "sample": {"action": "sample"},
    "help": {"action": "help"},
}
"""Arguments that a route always has."""

_CALLS: Final[Mapping[str, tuple[CompactTool, str]]] = {
    f"reasoning_{route}": (tool, action)
    for tool in _TOOLS
    # The first of two actions with the same route counts.
    for action, route in reversed([*tool.routes.items()])
}


def full_call(tool: CompactTool, arguments: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    """Return the call that a call of a compact tool stands for: a name, and arguments.

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
    return f"reasoning_{route}", {**given, **_FIXED.get(str(action), {})}


def compact_call(name: str) -> str:
    """Return how a tool of the full profile is called in the compact one."""
    if name not in _CALLS:
        return name
    tool, action = _CALLS[name]
    is_default = action == tool.default or len(tool.routes) == 1
    return tool.name if is_default else f"{tool.name} {tool.selector}={action}"


def compact_text(text: str) -> str:
    """Name the tools of the compact profile in a text that names those of the full one."""
    return re.sub(r"\breasoning_[a-z_]+", lambda match: compact_call(match[0]), text)


Data: TypeAlias = dict[str, Any]

MAX_OVERHEAD_CHARS: Final = 380
"""How many characters a result may have beside the thoughts in it; 400 are promised."""

MAX_MOVES: Final = 2
"""More advice is not followed, and repeated in every result."""

_LONG_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


async def compact_data(name: str, result: ResultPart, store: Storage) -> Data:
    """Return the result of a tool of the full profile as the compact profile shows it."""
    data = result_data(result)
    keys = set(_LONG_ID.findall(json.dumps(data)))
    data = _with_short_ids(data, await store.get_short_ids(keys))
    shaped = _shape_of(name, data, is_host=data.get("backend") == "host")
    if adjusted := data.get("adjusted"):
        shaped["adjusted"] = {field: change["used"] for field, change in adjusted.items()}
    calls: list[str] = []
    for move in data.get("next", [])[:MAX_MOVES]:
        words = [compact_call(move["tool"])]
        for field, value in move["arguments"].items():
            if field in ("session_id", "graph_id") and value == data.get(field):
                continue
            if isinstance(value, list):
                text = ",".join(map(str, cast("list[object]", value)))
            else:
                # An id that is cut names nothing; a text is the caller's own.
                text = str(value) if field.endswith("_id") else one_line(str(value), 30)
            words.append(f"{field}={text}")
        words += [f"{field}=…" for field in move.get("supply", ())]
        calls.append(" ".join(words))
    moves = [
        f"{call}: {one_line(move['why'], 50)}"
        for call, move in zip(calls, data.get("next", ()), strict=False)
    ]
    # Advice gives way where the rest of a result is long: first its reasons, then its calls.
    left = MAX_OVERHEAD_CHARS - _overhead(shaped) - len('"next":[],')
    if moves and len(compact_json(moves[:1])) > left:
        moves = calls[:1]
    while moves and len(compact_json(moves)) > left:
        moves.pop()
    return {**shaped, **({"next": moves} if moves else {})}


def compact_json(data: object) -> str:
    """Return data as JSON without spaces."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _with_short_ids(value: Any, short: Mapping[str, str]) -> Any:
    match value:
        case str():
            return _LONG_ID.sub(lambda match: short.get(match[0], match[0]), value)
        case dict():
            items = cast("Data", value).items()
            return {short.get(key, key): _with_short_ids(item, short) for key, item in items}
        case list():
            return [_with_short_ids(item, short) for item in cast("list[Any]", value)]
        case _:
            return value


_TEXTS: Final = frozenset(
    {"content", "analysis", "synthesis", "question", "improved", "conclusion", "rationale"}
    | {"active_branch", "last_thought", "open_branches", "left_behind", "best_nodes"}
    | {"checkpoints", "text", "solution", "statement", "forms", "functions"}
)
"""Fields that hold thoughts, or thoughts by id."""


def _overhead(value: Any) -> int:
    """Return how long a result, or a part of one, is beside the thoughts in it."""

    def without_texts(value: Any, *, is_text: bool = False) -> Any:
        match value:
            case str() if is_text:
                return ""
            case dict() if is_text:
                # The mark of a way that was left is no thought.
                items = cast("Data", value).items()
                return {name: LEFT_MARK if LEFT_MARK in str(text) else "" for name, text in items}
            case dict():
                items = cast("Data", value).items()
                return {name: without_texts(item, is_text=name in _TEXTS) for name, item in items}
            case list():
                return [without_texts(item) for item in cast("list[Any]", value)]
            case _:
                return value

    return len(compact_json(without_texts(value)))


def _pick(data: Data, names: str) -> Data:
    """Return fields that are not empty; `new=old` gives one another name."""
    pairs = ((name.partition("=")[0], name.rpartition("=")[2]) for name in names.split())
    return {new: data[old] for new, old in pairs if data.get(old) not in (None, [], {}, "")}


def _lines_that_fit(name: str, lines: Sequence[Data], *, used: int = 0) -> Data:
    """Return as many lines as fit, and how many there are more."""
    kept: list[Data] = []
    left = MAX_OVERHEAD_CHARS - used - 40
    for line in lines:
        left -= _overhead(line) + 1
        if left < 0:
            break
        kept.append(line)
    more = len(lines) - len(kept)
    return {name: kept, **({"more": more} if more else {})}


_BRANCH: Final = "session_id state branch_id=id above=parent_branch_id content=name"
_BACKTRACK: Final = "session_id thought_id branch_id=new_branch_id restored=checkpoint_restored"

_SOLVED: Final = "session_id thought_id answer_id branch_id status text solution value bound"

_WHERE: Final = (
    "session_id question conclusion budget "
    "active_branch last_thought open_branches left_behind best_nodes checkpoints"
)

_FIELDS: Final[Mapping[str, tuple[str, str]]] = {
    "linear": (
        "session_id thought_id branch_id follows=previous_thought total_thoughts revises_thought",
        "content confidence",
    ),
    "tree_focus": (_BRANCH, ""),
    "tree_complete": (_BRANCH, ""),
    "backtrack": (f"{_BACKTRACK} left_behind=abandoned_branch_id", "content confidence"),
    "got_init": ("session_id graph_id node_id=root_node_id", ""),
    "got_score": ("node_id overall_score", "rationale is_terminal_candidate"),
    "got_aggregate": (
        "node_id=aggregated_node_id sources=source_nodes",
        "content confidence conflicts_resolved",
    ),
    "got_refine": (
        "node_id=refined_node_id source=original_node_id",
        "content confidence improvements_made",
    ),
    "got_prune": ("pruned_count remaining_count threshold_used", ""),
    "session_conclude": ("session_id status", ""),
    "session_where": (_WHERE, ""),
    # The text names a second solution, contradictions and mistakes.
    "solve": (f"{_SOLVED} statement was_repaired forms functions", ""),
}
"""The fields of results without lists; the second ones only where a model wrote them."""

_LISTS: Final[Mapping[str, tuple[str, str, int]]] = {
    "session_list": ("sessions", "session_id status thoughts content=title", 60),
    "session_search": ("matches", "session_id thought_id content", 120),
    "session_get": ("thoughts", "branch_id thought_id=id content", 300),
}
"""The name of a list, the fields of its lines, and the length of their texts."""


def _shape_of(name: str, data: Data, *, is_host: bool) -> Data:
    """Return the part of a result that is its own; a caller is not shown what it wrote itself."""

    def by_model(part: Data, names: str) -> Data:
        return {} if is_host else _pick(part, names)

    name = name.removeprefix("reasoning_")
    if name in _FIELDS:
        always, written = _FIELDS[name]
        return {**_pick(data, always), **by_model(data, written)}
    if name in _LISTS:
        field, names, length = _LISTS[name]
        head = _pick(data, "session_id status total_thoughts")
        lines = [_pick(one, names) for one in data[field]]
        for line in lines:
            line["content"] = one_line(line.get("content", ""), length)
        used = len(compact_json(head)) if head else 0
        return {**head, **_lines_that_fit(field, lines, used=used)}
    match name:
        case "tree":
            children: list[Data] = data["child_branches"]
            branches = [
                {"branch_id": child["id"], **by_model(child, "confidence content=name rationale")}
                for child in children
            ]
            best: int = data["recommended_branch_index"]
            refs = {"cross_refs": count} if (count := data["cross_refs_created"]) else {}
            ids = _pick(data, "session_id thought_id branch_id")
            return {**ids, "branches": branches, "best": children[best]["id"], **refs}
        case "tree_list":
            found = sorted(data["branches"], key=lambda branch: branch["state"] != "active")
            lines = [_pick(branch, "branch_id=id state content=name") for branch in found]
            return _lines_that_fit("branches", lines)
        case "divergent":
            views: list[Data] = data["perspectives"]
            return {
                **_pick(data, "session_id thought_id branch_id"),
                "perspectives": [
                    {
                        "thought_id": view["thought_id"],
                        **by_model(view, "content novelty viability"),
                    }
                    for view in views
                ],
                "synthesis_id": data["synthesis_thought_id"],
                **by_model(data, "synthesis"),
                "most_viable": views[data["most_viable_perspective"]]["thought_id"],
            }
        case "reflection":
            improved: Data = data["improved_thought"] or {}
            return {
                **_pick(data, "session_id quality_score thought_id=reflection_thought_id"),
                **by_model(data, "analysis weaknesses recommendations"),
                **_pick(improved, "improved_id=thought_id"),
                **by_model(improved, "improved=content"),
            }
        case "checkpoint_create" | "checkpoint_list":
            points = [
                {
                    **_pick(one, "session_id checkpoint_id=id content=name"),
                    "holds": ", ".join(f"{n} {part}" for part, n in one["size"].items() if n),
                }
                for one in data.get("checkpoints", [data])
            ]
            if name == "checkpoint_create":
                return points[0]
            for point in points:
                del point["session_id"]
            return _lines_that_fit("checkpoints", points)
        case "auto":
            advice = _pick(data, "recommended_mode confidence")
            advice["rationale"] = one_line(data["rationale"], 200)
            if executed := data.get("executed"):
                step = _shape_of(executed["tool"], executed["result"], is_host=is_host)
                advice["executed"] = step
            return advice
        case "got_generate":
            nodes = [
                {"node_id": node["node_id"], **by_model(node, "content confidence rationale")}
                for node in data["continuations"]
            ]
            return {**_pick(data, "session_id source=source_node_id"), "nodes": nodes}
        case "got_state":
            nodes = [
                {
                    **_pick(node, "node_id score"),
                    "content": one_line(node["content"], 100),
                    **({} if node["is_active"] else {"is": node["node_type"]}),
                }
                for node in data["nodes"]
            ]
            head = _pick(data, "session_id graph_id total_nodes active_nodes max_depth")
            used = len(compact_json(head))
            if problem := data.get("problem"):
                head["question"] = one_line(problem, 200)
            return {**head, **_lines_that_fit("nodes", nodes, used=used)}
        case _:
            return {
                field: value for field, value in data.items() if field not in Result.model_fields
            }
