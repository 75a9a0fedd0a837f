"""Results of the compact profile: short ids, and at most 400 characters beside the thoughts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from plait.reasoning.compact.tools import compact_call
from plait.reasoning.prompts import shortened
from plait.reasoning.results import Result, ResultPart, result_data
from plait.reasoning.storage.port import Storage

Data: TypeAlias = dict[str, Any]

MOST_OVERHEAD: Final = 380
"""How many characters a result may have beside the thoughts in it; 400 are promised."""

_MOST_MOVES: Final = 2
_LONG_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


async def compact_data(name: str, result: ResultPart, store: Storage) -> Data:
    """Return the result of a tool of the full profile as the compact profile shows it."""
    data = result_data(result)
    keys = set(_LONG_ID.findall(json.dumps(data)))
    data = _renamed(data, await store.get_short_ids(keys))
    is_host = data.get("backend") == "host"
    shaped = _SHAPES.get(name, _as_it_is)(data, is_host)
    if adjusted := data.get("adjusted"):
        shaped["adjusted"] = {field: change["used"] for field, change in adjusted.items()}
    advised: list[Data] = data.get("next", [])[:_MOST_MOVES]
    moves = [f"{_move_text(move, data)}: {shortened(move['why'], 50)}" for move in advised]
    overhead = _overhead(shaped) + len('"next":[],')
    if moves and overhead + len(compact_json(moves[:1])) > MOST_OVERHEAD:
        moves = [_move_text(advised[0], data)]
    while moves and overhead + len(compact_json(moves)) > MOST_OVERHEAD:
        moves.pop()
    return {**shaped, **({"next": moves} if moves else {})}


def compact_json(data: object) -> str:
    """Return data as JSON without spaces."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _renamed(value: Any, short: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return short.get(value) or _LONG_ID.sub(lambda match: short.get(match[0], match[0]), value)
    if isinstance(value, dict):
        items = cast("Data", value).items()
        return {short.get(key, key): _renamed(item, short) for key, item in items}
    if isinstance(value, list):
        return [_renamed(item, short) for item in cast("list[Any]", value)]
    return value


def _move_text(move: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    arguments = {
        name: value
        for name, value in move["arguments"].items()
        if name not in ("session_id", "graph_id") or value != data.get(name)
    }
    words = [compact_call(move["tool"])]
    words += [f"{name}={_argument(name, value)}" for name, value in arguments.items()]
    words += [f"{name}=…" for name in move.get("supply", ())]
    return " ".join(words)


def _argument(name: str, value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, cast("Sequence[object]", value)))
    # An id that is cut names nothing; a text is the caller's own.
    return str(value) if name.endswith("_id") else shortened(str(value), 30)


_TEXTS: Final = frozenset(
    {
        "content",
        "analysis",
        "synthesis",
        "question",
        "improved",
        "conclusion",
        "rationale",
        "active_branch",
        "last_thought",
        "open_branches",
        "best_nodes",
        "checkpoints",
    }
)
"""Fields that hold thoughts, or thoughts by id."""


def _overhead(data: Data) -> int:
    """Return how long a result is beside the thoughts in it."""
    return len(compact_json(_without_texts(data)))


def _blank(value: Any) -> Any:
    if isinstance(value, dict):
        return dict.fromkeys(cast("Data", value), "")
    return "" if isinstance(value, str) else _without_texts(value)


def _without_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _blank(item) if name in _TEXTS else _without_texts(item)
            for name, item in cast("Data", value).items()
        }
    if isinstance(value, list):
        return [_without_texts(item) for item in cast("list[Any]", value)]
    return value


_Shape: TypeAlias = Callable[[Data, bool], Data]
_COMMON: Final = frozenset(Result.model_fields)


def _as_it_is(data: Data, _is_host: bool) -> Data:
    return {name: value for name, value in data.items() if name not in _COMMON}


def _picked(data: Data, *names: str, **renamed: str) -> Data:
    """Return fields that are not null, under their own names or under others."""
    fields = {**{name: name for name in names}, **renamed}
    return {new: data[old] for new, old in fields.items() if data.get(old) not in (None, [], "")}


def _by_model(data: Data, is_host: bool, *names: str, **renamed: str) -> Data:
    """Return fields that the caller has not written itself."""
    return {} if is_host else _picked(data, *names, **renamed)


def _linear(data: Data, is_host: bool) -> Data:
    numbers = ("total_thoughts", "revises_thought")
    return {
        **_picked(data, "session_id", "thought_id", "branch_id", follows="previous_thought"),
        **_picked(data, *numbers),
        **_by_model(data, is_host, "content", "confidence"),
    }


def _tree(data: Data, is_host: bool) -> Data:
    children: list[Data] = data["child_branches"]
    return {
        **_picked(data, "session_id", "thought_id", "branch_id"),
        "branches": [
            {
                "branch_id": child["id"],
                **({} if is_host else _picked(child, "confidence", content="name")),
                **_by_model(child, is_host, "rationale"),
            }
            for child in children
        ],
        "best": children[data["recommended_branch_index"]]["id"],
        **({"cross_refs": count} if (count := data["cross_refs_created"]) else {}),
    }


def _branch(data: Data, _is_host: bool) -> Data:
    return {
        **_picked(data, "session_id", "state", branch_id="id", above="parent_branch_id"),
        "content": data["name"],
    }


def _branches(data: Data, _is_host: bool) -> Data:
    found: list[Data] = data["branches"]
    ordered = sorted(found, key=lambda branch: branch["state"] != "active")
    lines = [
        {"branch_id": branch["id"], "state": branch["state"], "content": branch["name"]}
        for branch in ordered
    ]
    return _bounded("branches", lines)


def _divergent(data: Data, is_host: bool) -> Data:
    views: list[Data] = data["perspectives"]
    return {
        **_picked(data, "session_id", "thought_id", "branch_id"),
        "perspectives": [
            {
                "thought_id": view["thought_id"],
                **_by_model(view, is_host, "content", "novelty", "viability"),
            }
            for view in views
        ],
        "synthesis_id": data["synthesis_thought_id"],
        **_by_model(data, is_host, "synthesis"),
        "most_viable": views[data["most_viable_perspective"]]["thought_id"],
    }


def _reflection(data: Data, is_host: bool) -> Data:
    improved: Data = data["improved_thought"] or {}
    return {
        **_picked(data, "session_id", "quality_score", thought_id="reflection_thought_id"),
        **_by_model(data, is_host, "analysis", "weaknesses", "recommendations"),
        **_picked(improved, improved_id="thought_id"),
        **_by_model(improved, is_host, improved="content"),
    }


def _checkpoint(data: Data, _is_host: bool) -> Data:
    size: Data = data["size"]
    return {
        **_picked(data, "session_id", checkpoint_id="id"),
        "content": data["name"],
        "holds": ", ".join(f"{count} {name}" for name, count in size.items() if count),
    }


def _checkpoints(data: Data, is_host: bool) -> Data:
    return _bounded(
        "checkpoints",
        [
            {key: value for key, value in _checkpoint(one, is_host).items() if key != "session_id"}
            for one in data["checkpoints"]
        ],
    )


def _backtrack(data: Data, is_host: bool) -> Data:
    ids = _picked(data, "session_id", "thought_id", branch_id="new_branch_id")
    return {
        **ids,
        **_picked(data, restored="checkpoint_restored", left_behind="abandoned_branch_id"),
        **_by_model(data, is_host, "content", "confidence"),
    }


def _auto(data: Data, is_host: bool) -> Data:
    shown = {
        **_picked(data, "recommended_mode", "confidence"),
        "rationale": shortened(data["rationale"], 200),
    }
    executed: Data | None = data.get("executed")
    if executed is None:
        return shown
    step = _SHAPES.get(executed["tool"], _as_it_is)(executed["result"], is_host)
    return {**shown, "executed": step}


def _init(data: Data, _is_host: bool) -> Data:
    return _picked(data, "session_id", "graph_id", node_id="root_node_id")


def _generate(data: Data, is_host: bool) -> Data:
    return {
        **_picked(data, "session_id", source="source_node_id"),
        "nodes": [
            {
                "node_id": node["node_id"],
                **_by_model(node, is_host, "content", "confidence", "rationale"),
            }
            for node in data["continuations"]
        ],
    }


def _score(data: Data, is_host: bool) -> Data:
    return {
        **_picked(data, "node_id", "overall_score"),
        **_by_model(data, is_host, "rationale", "is_terminal_candidate"),
    }


def _aggregate(data: Data, is_host: bool) -> Data:
    return {
        **_picked(data, node_id="aggregated_node_id", sources="source_nodes"),
        **_by_model(data, is_host, "content", "confidence", "conflicts_resolved"),
    }


def _refine(data: Data, is_host: bool) -> Data:
    return {
        **_picked(data, node_id="refined_node_id", source="original_node_id"),
        **_by_model(data, is_host, "content", "confidence", "improvements_made"),
    }


def _prune(data: Data, _is_host: bool) -> Data:
    return _picked(data, "pruned_count", "remaining_count", "threshold_used")


def _state(data: Data, _is_host: bool) -> Data:
    nodes = [
        {
            **_picked(node, "node_id", "score"),
            "content": shortened(node["content"], 100),
            **({} if node["is_active"] else {"is": node["node_type"]}),
        }
        for node in data["nodes"]
    ]
    counts = _picked(data, "session_id", "graph_id", "total_nodes", "active_nodes", "max_depth")
    problem = data.get("problem")
    return {
        **counts,
        **({"question": shortened(problem, 200)} if problem else {}),
        **_bounded("nodes", nodes, used=len(compact_json(counts))),
    }


def _sessions(data: Data, _is_host: bool) -> Data:
    lines = [
        {
            **_picked(one, "session_id", "status", "thoughts"),
            "content": shortened(one["title"], 60),
        }
        for one in data["sessions"]
    ]
    return _bounded("sessions", lines)


def _get(data: Data, _is_host: bool) -> Data:
    head = _picked(data, "session_id", "status", "total_thoughts")
    thoughts = [
        {
            **_picked(one, "branch_id", thought_id="id"),
            "content": shortened(one["content"], 300),
        }
        for one in data["thoughts"]
    ]
    return {**head, **_bounded("thoughts", thoughts, used=len(compact_json(head)))}


def _search(data: Data, _is_host: bool) -> Data:
    matches = [
        {**_picked(one, "session_id", "thought_id"), "content": shortened(one["content"], 120)}
        for one in data["matches"]
    ]
    return _bounded("matches", matches)


def _conclude(data: Data, _is_host: bool) -> Data:
    return _picked(data, "session_id", "status")


def _where(data: Data, _is_host: bool) -> Data:
    where = _picked(data, "session_id", "question", "conclusion", "budget")
    active: list[Data] = [data["active_branch"]] if data.get("active_branch") else []
    maps: dict[str, dict[str, str]] = {
        "active_branch": {one["branch_id"]: one["name"] for one in active},
        "last_thought": data.get("last_thought") or {},
        "open_branches": {
            one["branch_id"]: f"{one['confidence']:.2f} {one['name']}"
            for one in data["open_branches"]
        },
        "best_nodes": {
            one["node_id"]: f"{one['score'] or 0:.2f} {one['content']}"
            for one in data["best_nodes"]
        },
        "checkpoints": {key: name for one in data["checkpoints"] for key, name in one.items()},
    }
    return {**where, **{name: texts for name, texts in maps.items() if texts}}


def _bounded(name: str, lines: Sequence[Data], *, used: int = 0) -> Data:
    """Return as many lines as fit, and how many there are more."""
    kept: list[Data] = []
    left = MOST_OVERHEAD - used - 40
    for line in lines:
        left -= len(compact_json(_without_texts(line))) + 1
        if left < 0:
            break
        kept.append(line)
    more = len(lines) - len(kept)
    return {name: kept, **({"more": more} if more else {})}


_SHAPES: Final[Mapping[str, _Shape]] = {
    f"reasoning_{name}": shape
    for name, shape in {
        "linear": _linear,
        "tree": _tree,
        "tree_focus": _branch,
        "tree_complete": _branch,
        "tree_list": _branches,
        "divergent": _divergent,
        "reflection": _reflection,
        "checkpoint_create": _checkpoint,
        "checkpoint_list": _checkpoints,
        "backtrack": _backtrack,
        "auto": _auto,
        "got_init": _init,
        "got_generate": _generate,
        "got_score": _score,
        "got_aggregate": _aggregate,
        "got_refine": _refine,
        "got_prune": _prune,
        "got_state": _state,
        "session_list": _sessions,
        "session_get": _get,
        "session_search": _search,
        "session_conclude": _conclude,
        "session_where": _where,
    }.items()
}
"""How results of tools are shown; others are shown as they are."""
