"""Where a session stands, in one result: what a model needs to go on after a break."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from plait.reasoning.arguments import SessionParams
from plait.reasoning.call_context import CallContext, Outcome
from plait.reasoning.modes.got_graph import GraphParams, NodeInfo, OpenGraph, graph_for, next_in
from plait.reasoning.modes.sessions import token_use
from plait.reasoning.paths import Place, current_place
from plait.reasoning.prompts import shortened
from plait.reasoning.results import Move, ResultPart, SessionResult, move
from plait.reasoning.values import Branch, Session

_MOST_BRANCHES = 5
_MOST_NODES = 3
_MOST_QUESTION = 200
_MOST_TEXT = 80


class OpenBranch(ResultPart):
    """A branch that can be followed."""

    branch_id: str
    name: str
    confidence: float


class WhereResult(SessionResult):
    """Where a session stands."""

    OMIT_IF_NONE = frozenset({"active_branch", "last_thought", "conclusion", "graph_id"})

    status: str
    question: str
    active_branch: OpenBranch | None = None
    last_thought: dict[str, str] | None = None
    open_branches: list[OpenBranch]
    best_nodes: list[NodeInfo]
    graph_id: str | None = None
    checkpoints: list[dict[str, str]]
    budget: dict[str, Any] = Field(description="What was used, of what may be.")
    conclusion: str | None = None


async def session_where(params: SessionParams, call: CallContext) -> Outcome[WhereResult]:
    """Tell where a session stands: question, branches, best nodes, budget and next move."""
    session = await call.existing_session(params.session_id)
    store = call.store
    place = await current_place(store, session)
    branches = await store.get_session_branches(session.id)
    graph = None
    if await store.get_latest_graph(session.id) is not None:
        graph = await graph_for(GraphParams(session_id=session.id), call, reading=True)
    waiting = _open_ends(branches, place)
    conclusion = session.conclusion or {}
    result = WhereResult(
        session_id=session.id,
        status=session.status,
        question=shortened(await _question(call, session, graph), _MOST_QUESTION),
        active_branch=_open(place.branch) if place.branch else None,
        last_thought={place.tip.id: shortened(place.tip.content, _MOST_TEXT)}
        if place.tip
        else None,
        open_branches=[_open(branch) for branch in waiting[:_MOST_BRANCHES]],
        best_nodes=_best_nodes(graph),
        graph_id=graph.graph.id if graph else None,
        checkpoints=[
            {one.id: shortened(one.name, 30)}
            for one in (await store.get_session_checkpoints(session.id))[:_MOST_BRANCHES]
        ],
        budget=await _budget(call, session, graph),
        conclusion=shortened(str(conclusion["text"]), _MOST_QUESTION) if conclusion else None,
        next=_next_moves(session, waiting, graph),
    )
    return Outcome(result)


def _open(branch: Branch) -> OpenBranch:
    return OpenBranch(
        branch_id=branch.id, name=shortened(branch.name, 50), confidence=branch.confidence
    )


def _open_ends(branches: Sequence[Branch], place: Place) -> list[Branch]:
    """Return the branches that are not ended and have none below them, the best first."""
    parents = {branch.parent_branch_id for branch in branches if branch.state == "active"}
    ends = [
        branch
        for branch in branches
        if branch.state == "active" and branch.id not in parents and branch.id != place.branch_id
    ]
    return sorted(ends, key=lambda branch: (branch.priority, branch.confidence), reverse=True)


async def _question(call: CallContext, session: Session, graph: OpenGraph | None) -> str:
    first = await call.store.get_first_thought(session.id)
    if first is not None:
        return str((first.metadata or {}).get("question") or first.content)
    if graph is None:
        return ""
    return graph.graph.problem or next((node.content for node in graph.nodes if node.is_root), "")


def _best_nodes(graph: OpenGraph | None) -> list[NodeInfo]:
    if graph is None:
        return []
    ranked = sorted(
        (node for node in graph.nodes if node.is_terminal or node.is_active),
        key=lambda node: (node.is_terminal, node.score or 0),
        reverse=True,
    )
    return [
        NodeInfo.of(node, node_id=node.id, content=shortened(node.content, _MOST_TEXT))
        for node in ranked[:_MOST_NODES]
    ]


async def _budget(call: CallContext, session: Session, graph: OpenGraph | None) -> dict[str, Any]:
    count = await call.store.count_session_thoughts(session.id)
    total = (session.metadata or {}).get("total_thoughts")
    is_within = total is not None and count <= total
    budget: dict[str, Any] = {"thoughts": f"{count} of {total}" if is_within else count}
    tokens = await token_use(call, session)
    if tokens["requests"]:
        budget["tokens"] = tokens["input"] + tokens["output"]
    if graph is not None:
        depth = max((node.depth for node in graph.nodes), default=0)
        budget["nodes"] = f"{len(graph.nodes)} of {graph.limits.max_nodes}"
        budget["depth"] = f"{depth} of {graph.limits.max_depth}"
    return budget


def _next_moves(session: Session, waiting: Sequence[Branch], graph: OpenGraph | None) -> list[Move]:
    if session.status == "concluded":
        return [move("session_reopen", "to go on with it", session.id)]
    if graph is not None and any(node.is_active for node in graph.nodes):
        return next_in(graph, graph.nodes)[:2]
    moves = [move("linear", "take the next step", session.id)]
    if waiting:
        why = f"{len(waiting)} more ways are open"
        moves.append(move("tree_focus", why, session.id, branch_id=waiting[0].id))
    moves.append(move("session_conclude", "if the question is answered", session.id))
    return moves
