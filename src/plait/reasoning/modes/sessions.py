"""Session tools: list, read, search, export, delete, fork, conclude and reopen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from plait.errors import ThoughtNotFoundError
from plait.reasoning.arguments import SessionParams, invalid_argument, session_error, unknown_id
from plait.reasoning.call_context import CallContext, Outcome, touched
from plait.reasoning.export import EXPORTERS, Exported, Format, read_document
from plait.reasoning.fields import AnyText, Id, Integer, Number, Params, Text, clamped, optional
from plait.reasoning.modes.got_graph import node_infos
from plait.reasoning.results import Move, Result, ResultPart, SessionResult, move, result_data
from plait.reasoning.storage.port import SessionLine, Storage
from plait.reasoning.values import Branch, Changes, Json, Session, ValueT, new_id, now, public_data


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
    result = GetResult.of(
        session,
        session_id=session.id,
        total_thoughts=await store.count_session_thoughts(session.id),
        thoughts=[
            {**public_data(value), "content": _cut(value.content, params.max_content)}
            for value in page
        ],
        branches=[public_data(value) for value in await store.get_session_branches(session.id)],
        checkpoints=[
            {"id": value.id, "name": value.name, "created_at": value.created_at}
            for value in await store.get_session_checkpoints(session.id)
        ],
        graphs=[
            {
                "graph_id": value.id,
                "problem": value.problem,
                "config": value.config,
                "nodes": [
                    result_data(info) for info in node_infos(await store.get_graph_nodes(value.id))
                ],
            }
            for value in await store.get_session_graphs(session.id)
        ],
        tokens=await token_use(call, session),
        next=[_go_on(session)],
    )
    return Outcome(result)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _go_on(session: Session) -> Move:
    tool = "session_reopen" if session.status == "concluded" else "linear"
    return move(tool, "to go on with it", session.id)


async def token_use(call: CallContext, session: Session) -> dict[str, int]:
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
            "thought_id": value.id,
            "session_id": value.session_id,
            "content": value.content,
            "mode": value.mode,
            "abandoned": value.abandoned_by is not None,
            "created_at": value.created_at,
        }
        for value in thoughts
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


async def session_fork(params: ForkParams, call: CallContext) -> Outcome[ForkResult]:
    """Copy what counts in a session into a new one, to try something else there."""
    session = await call.existing_session(params.session_id)
    if params.new_session_id and await call.store.get_session(params.new_session_id):
        raise invalid_argument("new_session_id", "There is a session with this id already")
    key = params.new_session_id or call.new_session_id()
    changes = await _fork(call.store, session, key=key)
    copy = changes.session
    if copy is None:
        raise session_error(f"Session not found: {session.id}")
    result = ForkResult(
        session_id=copy.id,
        forked_from=session.id,
        thoughts=len(changes.thoughts),
        branches=len(changes.branches),
        nodes=len(changes.nodes),
        next=[move("linear", "go on in the copy", copy.id)],
    )
    return Outcome(result, changes)


async def session_conclude(params: ConcludeParams, call: CallContext) -> Outcome[ConcludeResult]:
    """Close a session with what it came to.

    Use it when the question is answered; nothing can be added until the session is reopened.
    """
    session = await call.open_session(params.session_id)
    for index, key in enumerate(params.thought_ids):
        thought = await call.store.get_thought(key)
        if thought is None or thought.session_id != session.id:
            text = f"Thought not found in this session: {key}"
            raise unknown_id(ThoughtNotFoundError, text, key, f"thought_ids[{index}]")
    conclusion = {
        "text": params.conclusion,
        "confidence": params.confidence,
        "thought_ids": params.thought_ids,
        "tokens": await token_use(call, session),
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
    result = ReopenResult(
        session_id=session.id, status="open", former_conclusion=former, next=[_go_on(opened)]
    )
    return Outcome(result, Changes(session=opened))


class _NewIds(dict[str, str]):
    """A new id for each old one."""

    def __missing__(self, key: str) -> str:
        self[key] = new_id()
        return self[key]

    def in_metadata(self, metadata: Json | None) -> Json | None:
        """Return metadata with the new ids of the thoughts that it refers to."""
        links = {"revises", "revised_by", "original_thought_id"}
        return metadata and {
            name: self[value] if name in links and value else value
            for name, value in metadata.items()
        }

    def copies(self, values: Iterable[ValueT], *references: str, **fields: Any) -> list[ValueT]:
        """Copy values with new ids, also in the fields that refer to others."""
        return [
            replace(
                value,
                id=self[value.id],
                **{name: (key := getattr(value, name)) and self[key] for name in references},
                **fields,
            )
            for value in values
        ]


async def _fork(store: Storage, session: Session, *, key: str) -> Changes:
    """Return the changes that copy a session; checkpoints and abandoned parts are not copied."""
    ids = _NewIds()
    active = session.active_branch_id
    copy = Session(
        id=key,
        mode=session.mode,
        metadata={**(session.metadata or {}), "forked_from": session.id, "forked_at": now()},
        active_branch_id=active and ids[active],
    )
    own = {"session_id": copy.id, "position": None}
    thoughts = await store.get_session_thoughts(session.id)
    kept = {thought.id for thought in thoughts}
    rooted = [
        replace(
            one,
            parent_id=one.parent_id if one.parent_id in kept else None,
            metadata=ids.in_metadata(one.metadata),
        )
        for one in thoughts
    ]
    branches = _parents_first(await store.get_session_branches(session.id))
    refs = await store.get_session_cross_refs(session.id)
    graphs = await store.get_session_graphs(session.id)
    nodes = await store.get_session_graph_nodes(session.id)
    edges = await store.get_session_edges(session.id)
    links = ("graph_id", "from_node", "to_node")
    return Changes(
        session=copy,
        branches=(*ids.copies(branches, "parent_branch_id", **own),),
        cross_refs=(*ids.copies(refs, "from_branch_id", "to_branch_id"),),
        thoughts=(*ids.copies(rooted, "parent_id", "branch_id", **own),),
        graphs=(*ids.copies(graphs, session_id=copy.id),),
        nodes=(*ids.copies(nodes, "graph_id", **own),),
        edges=(*ids.copies(edges, *links, session_id=copy.id),),
    )


def _parents_first(branches: Sequence[Branch]) -> list[Branch]:
    """Sort branches after their parents; a backtrack can make a newer branch the parent."""
    waiting = {branch.id: branch for branch in branches}
    ordered: list[Branch] = []

    def take(branch: Branch) -> None:
        if waiting.pop(branch.id, None) is None:
            return
        parent = waiting.get(branch.parent_branch_id or "")
        if parent is not None:
            take(parent)
        ordered.append(branch)

    for branch in branches:
        take(branch)
    return ordered
