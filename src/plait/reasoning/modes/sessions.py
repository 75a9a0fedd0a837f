"""Session tools: list, read, search, export, delete, fork, conclude, reopen, and their state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from plait._support.exception_groups import one_line
from plait.reasoning.arguments import SessionParams, invalid_argument, session_error
from plait.reasoning.call_context import CallContext, Outcome, touched
from plait.reasoning.diagram import read_document
from plait.reasoning.export import EXPORTERS, Exported, Format
from plait.reasoning.fields import AnyText, Id, Integer, Number, Params, Text, clamped, optional
from plait.reasoning.modes.got import GraphParams, graph_for, next_in, node_infos
from plait.reasoning.modes.tree import open_ways, ways_left
from plait.reasoning.results import Move, Result, ResultPart, SessionResult, move, result_data
from plait.reasoning.storage.port import SessionLine
from plait.reasoning.values import Branch, Changes, Session, ValueT, new_id, now, public_data

LEFT_MARK = " (left after: "
"""Before the last thought on a way that a backtrack left."""

MAX_BRANCHES_SHOWN = 5
MAX_NODES_SHOWN = 3
MAX_QUESTION_CHARS = 200
MAX_TEXT_CHARS = 80
"""Where a session stands must be short: it is read at every new start."""


class SessionsParams(Params):
    """Arguments of `reasoning_session_list`."""

    limit: Integer = clamped(1, 200, "How many to list.", default=50)
    offset: Integer = clamped(0, 1_000_000, "How many to skip.", default=0)
    status: Literal["open", "concluded"] | None = optional("Only these.")


class SessionInfo(ResultPart):
    """A session in a list."""

    session_id: str
    title: str
    mode: str
    status: str
    thoughts: int
    created_at: str
    updated_at: str


class SessionsResult(Result):
    """Sessions, the one that changed last first."""

    sessions: list[SessionInfo]
    count: int


class GetParams(SessionParams):
    """Arguments of `reasoning_session_get`."""

    limit: Integer = clamped(1, 1000, "How many thoughts to read.", default=50)
    offset: Integer = clamped(0, 1_000_000, "How many thoughts to skip.", default=0)
    max_content: Integer = clamped(
        40, 100_000, "How many characters of each text to show.", default=1000
    )


class GetResult(SessionResult):
    """A session with its thoughts."""

    mode: str
    status: str
    created_at: str
    updated_at: str
    active_branch_id: str | None
    conclusion: dict[str, Any] | None
    total_thoughts: int
    thoughts: list[dict[str, Any]]
    branches: list[dict[str, Any]]
    checkpoints: list[dict[str, Any]]
    graphs: list[dict[str, Any]]
    tokens: dict[str, int]


class SearchParams(Params):
    """Arguments of `reasoning_session_search`."""

    query: Text = Field(description="A text to look for in thoughts; case does not matter.")
    session_id: Id | None = optional("Look in this session only.")
    limit: Integer = clamped(1, 100, "How many to find.", default=20)


class SearchResult(Result):
    """Thoughts that hold the text."""

    matches: list[dict[str, Any]]
    count: int


class ExportParams(SessionParams):
    """Arguments of `reasoning_session_export`."""

    format: Format = "markdown"


class ExportResult(SessionResult):
    """A session as a document."""

    format: str
    mime_type: str
    content: str


class DeleteResult(SessionResult):
    """A session that is gone."""

    deleted: bool


class ForkParams(SessionParams):
    """Arguments of `reasoning_session_fork`."""

    new_session_id: Id | None = optional("The id of the copy.")


class ForkResult(SessionResult):
    """The copy."""

    forked_from: str
    thoughts: int
    branches: int
    nodes: int


class ConcludeParams(SessionParams):
    """Arguments of `reasoning_session_conclude`."""

    conclusion: Text = Field(description="What the session came to.")
    confidence: Number = clamped(0, 1, "How sure you are of it.", default=0.8)
    thought_ids: list[Id] = Field(default_factory=list[Id], description="The thoughts it rests on.")


class ConcludeResult(SessionResult):
    """A session that is closed."""

    status: str
    conclusion: dict[str, Any]


class ReopenParams(SessionParams):
    """Arguments of `reasoning_session_reopen`."""

    reason: AnyText | None = None


class ReopenResult(SessionResult):
    """A session that is open again."""

    status: str
    former_conclusion: dict[str, Any] | None


class WhereResult(SessionResult):
    """Where a session stands: short texts by id."""

    graph_id: str | None
    question: str
    conclusion: str
    budget: dict[str, Any]
    active_branch: dict[str, str]
    last_thought: dict[str, str]
    open_branches: dict[str, str]
    left_behind: dict[str, str]
    best_nodes: dict[str, str]
    checkpoints: dict[str, str]


async def session_list(params: SessionsParams, call: CallContext) -> Outcome[SessionsResult]:
    """List reasoning sessions, the one that changed last first."""
    lines = await call.store.list_sessions(
        limit=params.limit, offset=params.offset, status=params.status
    )
    steps = [move("session_get", "read the newest", line.session.id) for line in lines[:1]]
    sessions = [session_info(line) for line in lines]
    return Outcome(SessionsResult(sessions=sessions, count=len(sessions), next=steps))


def session_info(line: SessionLine) -> SessionInfo:
    """Return a session as lists show it."""
    session = line.session
    return SessionInfo.of(session, session_id=session.id, title=line.title, thoughts=line.thoughts)


async def session_get(params: GetParams, call: CallContext) -> Outcome[GetResult]:
    """Read a session: thoughts, branches, checkpoints, graphs and token costs."""
    session = await call.existing_session(params.session_id)
    store = call.store
    page = await store.get_session_thoughts(session.id, limit=params.limit, offset=params.offset)
    most = params.max_content
    result = GetResult.of(
        session,
        session_id=session.id,
        total_thoughts=await store.count_session_thoughts(session.id),
        thoughts=[
            {**public_data(one), "content": f"{one.content[: most - 1]}…"}
            if len(one.content) > most
            else public_data(one)
            for one in page
        ],
        branches=[public_data(one) for one in await store.get_session_branches(session.id)],
        checkpoints=[
            {"id": one.id, "name": one.name, "created_at": one.created_at}
            for one in await store.get_session_checkpoints(session.id)
        ],
        graphs=[
            {
                "graph_id": graph.id,
                "problem": graph.problem,
                "config": graph.config,
                "nodes": [*map(result_data, node_infos(await store.get_graph_nodes(graph.id)))],
            }
            for graph in await store.get_session_graphs(session.id)
        ],
        tokens=await _token_use(call, session),
        next=[_continuation(session)],
    )
    return Outcome(result)


def _continuation(session: Session) -> Move:
    tool = "session_reopen" if session.status == "concluded" else "linear"
    return move(tool, "to go on with it", session.id)


async def _token_use(call: CallContext, session: Session) -> dict[str, int]:
    """Return the requests and tokens that a session has cost."""
    usages = await call.store.get_usage(session_id=session.id)
    requests = [usage for usage in usages if usage.pipe_name is not None]
    return {
        "requests": sum(usage.requests for usage in requests),
        "input": sum(usage.input_tokens for usage in requests),
        "output": sum(usage.output_tokens for usage in requests),
    }


async def session_search(params: SearchParams, call: CallContext) -> Outcome[SearchResult]:
    """Find thoughts by their text, in one session or in all."""
    if params.session_id is not None:
        await call.existing_session(params.session_id)
    thoughts = await call.store.search_thoughts(
        params.query, session_id=params.session_id, limit=params.limit
    )
    matches = [
        {
            "thought_id": thought.id,
            "session_id": thought.session_id,
            "content": thought.content,
            "mode": thought.mode,
            "abandoned": thought.abandoned_by is not None,
            "created_at": thought.created_at,
        }
        for thought in thoughts
    ]
    return Outcome(SearchResult(matches=matches, count=len(matches)))


async def session_export(params: ExportParams, call: CallContext) -> Outcome[ExportResult]:
    """Write a session as JSON, Markdown, Mermaid, DOT or SVG."""
    session = await call.existing_session(params.session_id)
    exported: Exported = EXPORTERS[params.format](await read_document(call.store, session))
    result = ExportResult.of(exported, session_id=session.id, format=params.format)
    return Outcome(result)


async def session_delete(params: SessionParams, call: CallContext) -> Outcome[DeleteResult]:
    """Throw a session away with everything in it."""
    session = await call.existing_session(params.session_id)
    deleted = await call.store.delete_session(session.id)
    return Outcome(DeleteResult(session_id=session.id, deleted=deleted))


class _NewIds(dict[str, str]):
    """A new id for each old one."""

    def __missing__(self, key: str) -> str:
        self[key] = new_id()
        return self[key]

    def copy_of(self, value: ValueT, *references: str, **fields: Any) -> ValueT:
        """Copy a value with a new id, also in the fields that refer to others."""
        named = {name: (key := getattr(value, name)) and self[key] for name in references}
        return replace(value, id=self[value.id], **named, **fields)


async def session_fork(params: ForkParams, call: CallContext) -> Outcome[ForkResult]:
    """Copy what counts in a session into a new one, to try something else there."""
    session = await call.existing_session(params.session_id)
    if params.new_session_id and await call.store.get_session(params.new_session_id):
        raise invalid_argument("new_session_id", "There is a session with this id already")
    key, store, ids = session.id, call.store, _NewIds()
    copy = Session(
        id=params.new_session_id or call.new_session_id(),
        mode=session.mode,
        metadata={**(session.metadata or {}), "forked_from": key, "forked_at": now()},
        active_branch_id=session.active_branch_id and ids[session.active_branch_id],
    )
    own = {"session_id": copy.id, "position": None}
    # A branch is written after its parent; a backtrack can make a newer branch the parent.
    waiting = {branch.id: branch for branch in await store.get_session_branches(key)}
    branches: list[Branch] = []
    for branch in [*waiting.values()]:
        line = [branch]
        while (parent := waiting.get(line[-1].parent_branch_id or "")) and parent not in line:
            line.append(parent)
        new = [one for one in reversed(line) if waiting.pop(one.id, None) is not None]
        branches += [ids.copy_of(one, "parent_branch_id", **own) for one in new]
    # Abandoned thoughts are not copied, so nothing refers to them.
    kept = {thought.id: thought for thought in await store.get_session_thoughts(key)}
    thoughts = [
        ids.copy_of(
            replace(thought, parent_id=thought.parent_id if thought.parent_id in kept else None),
            "parent_id",
            "branch_id",
            metadata=thought.metadata
            and {
                name: ids[value] if name in _THOUGHT_LINKS and value else value
                for name, value in thought.metadata.items()
            },
            **own,
        )
        for thought in kept.values()
    ]
    changes = Changes(
        session=copy,
        branches=(*branches,),
        cross_refs=tuple(
            ids.copy_of(ref, "from_branch_id", "to_branch_id")
            for ref in await store.get_session_cross_refs(key)
        ),
        thoughts=(*thoughts,),
        graphs=tuple(
            ids.copy_of(graph, session_id=copy.id) for graph in await store.get_session_graphs(key)
        ),
        nodes=tuple(
            ids.copy_of(node, "graph_id", **own)
            for node in await store.get_session_graph_nodes(key)
        ),
        edges=tuple(
            ids.copy_of(edge, "graph_id", "from_node", "to_node", session_id=copy.id)
            for edge in await store.get_session_edges(key)
        ),
    )
    result = ForkResult(
        session_id=copy.id,
        forked_from=key,
        thoughts=len(changes.thoughts),
        branches=len(changes.branches),
        nodes=len(changes.nodes),
        next=[move("linear", "go on in the copy", copy.id)],
    )
    return Outcome(result, changes)


_THOUGHT_LINKS = frozenset({"revises", "revised_by", "original_thought_id"})
"""Metadata that holds the id of a thought."""


async def session_conclude(params: ConcludeParams, call: CallContext) -> Outcome[ConcludeResult]:
    """Close a session with what it came to.

    Use it when the question is answered; nothing can be added until the session is reopened.
    """
    session = await call.open_session(params.session_id)
    for index, key in enumerate(params.thought_ids):
        await call.thought_of(session, key, f"thought_ids[{index}]")
    conclusion = {
        "text": params.conclusion,
        "confidence": params.confidence,
        "thought_ids": params.thought_ids,
        "tokens": await _token_use(call, session),
        "concluded_at": now(),
    }
    closed = replace(touched(session), status="concluded", conclusion=conclusion)
    result = ConcludeResult(session_id=session.id, status="concluded", conclusion=conclusion)
    return Outcome(result, Changes(session=closed))


async def session_reopen(params: ReopenParams, call: CallContext) -> Outcome[ReopenResult]:
    """Open a concluded session again."""
    session = await call.existing_session(params.session_id)
    if session.status != "concluded":
        raise session_error(f"Session {session.id} is not concluded")
    former = dict(session.conclusion) if session.conclusion else None
    metadata = dict(session.metadata or {})
    metadata["reopened"] = [
        *metadata.get("reopened", ()),
        {"at": now(), "reason": params.reason, "conclusion": former},
    ]
    opened = replace(touched(session), status="open", conclusion=None, metadata=metadata)
    steps = [_continuation(opened)]
    result = ReopenResult(
        session_id=session.id, status="open", former_conclusion=former, next=steps
    )
    return Outcome(result, Changes(session=opened))


async def session_where(params: SessionParams, call: CallContext) -> Outcome[WhereResult]:
    """Tell where a session stands: question, branches, best nodes, budget and next move."""
    session = await call.existing_session(params.session_id)
    store = call.store
    place = await call.place(session, None)
    branches = await store.get_session_branches(session.id)
    graph = None
    if await store.get_latest_graph(session.id) is not None:
        graph = await graph_for(GraphParams(session_id=session.id), call, reading=True)
    nodes = graph.nodes if graph else ()
    waiting, left = open_ways(branches, place.branch_id), ways_left(branches)
    question = ""
    if (first := await store.get_first_thought(session.id)) is not None:
        question = str((first.metadata or {}).get("question") or first.content)
    elif graph is not None:
        roots = (node.content for node in nodes if node.is_root)
        question = graph.graph.problem or next(roots, "")
    count = await store.count_session_thoughts(session.id)
    total = (session.metadata or {}).get("total_thoughts")
    is_within = total is not None and count <= total
    budget: dict[str, Any] = {"thoughts": f"{count} of {total}" if is_within else count}
    tokens = await _token_use(call, session)
    if tokens["requests"]:
        budget["tokens"] = tokens["input"] + tokens["output"]
    if graph is not None:
        depth = max((node.depth for node in nodes), default=0)
        budget["nodes"] = f"{len(nodes)} of {graph.limits.max_nodes}"
        budget["depth"] = f"{depth} of {graph.limits.max_depth}"
    if session.status == "concluded":
        steps = [_continuation(session)]
    elif graph is not None and any(node.is_active for node in nodes):
        steps = next_in(graph, nodes)[:2]
    else:
        steps = [move("linear", "take the next step", session.id)]
        if waiting and waiting[0].id not in left:
            why = f"{len(waiting)} more ways are open"
            steps.append(move("tree_focus", why, session.id, branch_id=waiting[0].id))
        steps.append(move("session_conclude", "if the question is answered", session.id))
    active, tip = place.branch, place.tip
    best = node_infos(
        [node for node in nodes if node.is_terminal or node.is_active],
        count=MAX_NODES_SHOWN,
        chars=MAX_TEXT_CHARS,
    )
    checkpoints = await store.get_session_checkpoints(session.id)
    conclusion = str((session.conclusion or {}).get("text", ""))
    result = WhereResult(
        session_id=session.id,
        graph_id=graph.graph.id if graph else None,
        question=one_line(question, MAX_QUESTION_CHARS),
        conclusion=one_line(conclusion, MAX_QUESTION_CHARS),
        budget=budget,
        active_branch={active.id: one_line(active.name, 50)} if active else {},
        last_thought={tip.id: one_line(tip.content, MAX_TEXT_CHARS)} if tip else {},
        open_branches={
            way.id: _scored(way.score, one_line(way.name, 50))
            + (f"{LEFT_MARK}{left[way.id]})" if way.id in left else "")
            for way in waiting[:MAX_BRANCHES_SHOWN]
        },
        left_behind={
            branch.id: str(last)
            for branch in branches[::-1][:MAX_BRANCHES_SHOWN]
            if (last := (branch.metadata or {}).get("last"))
        },
        best_nodes={node.node_id: _scored(node.score, node.content) for node in best},
        checkpoints={one.id: one_line(one.name, 30) for one in checkpoints[:MAX_BRANCHES_SHOWN]},
        next=steps,
    )
    return Outcome(result)


def _scored(score: float | None, text: str) -> str:
    return text if score is None else f"{score:.2f} {text}"
