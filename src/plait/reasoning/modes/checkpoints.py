"""Checkpoints: named states of a session, and backtracking to one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final, Self

from pydantic import Field

from plait._support.exception_groups import one_line
from plait.errors import CheckpointNotFoundError
from plait.reasoning import values
from plait.reasoning.arguments import SessionParams, invalid_argument, unknown_id
from plait.reasoning.call_context import CallContext, Outcome, touched
from plait.reasoning.fields import AnyText, Id, Number, Params, Text, clamped, optional
from plait.reasoning.modes.linear import LinearReply
from plait.reasoning.modes.tree import WAYS_LEFT, open_ways, ways_left
from plait.reasoning.prompts import BUDGET_TOKENS, estimated_tokens, truncated
from plait.reasoning.results import ListResult, Result, ResultPart, move, unless_none
from plait.reasoning.values import Branch, Changes, Checkpoint, Session, Thought, now, public_data

_Part = Branch | Thought | values.GraphNode | values.GraphEdge

_PARTS: Final[Mapping[str, type[_Part]]] = {
    "branches": Branch,
    "thoughts": Thought,
    "nodes": values.GraphNode,
    "edges": values.GraphEdge,
}
"""What a backtrack restores, by the fields of `Changes`."""

MAX_LEFT_CHARS = 80
"""How much of a thought says why a way was left: it is repeated in advice."""

MAX_BRANCHES = 20
"""How many active branches a prompt names."""


class CheckpointParams(SessionParams):
    """Arguments of `reasoning_checkpoint_create`."""

    EXTENSIONS = frozenset({"include_snapshot"})

    name: Text = Field(description="A name to recognise it by.")
    description: AnyText | None = None
    include_snapshot: bool | None = optional("False leaves the state out of the result.")


class CheckpointsParams(SessionParams):
    """Arguments of `reasoning_checkpoint_list`."""

    EXTENSIONS = frozenset({"include_snapshot"})

    include_snapshot: bool | None = optional("False leaves the states out of the result.")


class CheckpointSize(ResultPart):
    """How much a checkpoint holds."""

    thoughts: int
    branches: int
    nodes: int


class CheckpointInfo(ResultPart):
    """A checkpoint."""

    id: str
    session_id: str
    branch_id: str | None
    name: str
    description: str | None
    snapshot: dict[str, Any] | None = unless_none("The state that was kept.")
    size: CheckpointSize | None = unless_none("How much it holds, where the state is left out.")
    created_at: str

    @classmethod
    def with_state(cls, source: Checkpoint, *, shown: bool, **fields: Any) -> Self:
        """Return a checkpoint with its state, or with the size of it."""
        if shown:
            return cls.of(source, size=None, **fields)
        state = {**source.snapshot, **source.snapshot.get("graph", {})}
        size = CheckpointSize(
            **{name: len(state.get(name, ())) for name in CheckpointSize.model_fields}
        )
        return cls.of(source, snapshot=None, size=size, **fields)


class CheckpointResult(CheckpointInfo, Result):
    """A checkpoint as the whole result."""


class CheckpointList(ListResult):
    """The checkpoints of a session."""

    checkpoints: list[CheckpointInfo]


class BacktrackParams(Params):
    """Arguments of `reasoning_backtrack`."""

    checkpoint_id: Id = Field(description="The state to come back to.")
    new_direction: Text | None = optional("Where to go instead.")
    session_id: Id | None = optional("The session of the checkpoint.")
    confidence: Number = clamped(0, 1, "How sure you are of the new way.", default=0.8)
    thought: Text | None = optional("The first step of the new way; then no model is asked.")


class BacktrackResult(Result):
    """The state that was restored, and the first step from it."""

    thought_id: str
    session_id: str
    checkpoint_restored: str
    content: str
    confidence: float
    new_branch_id: str | None
    snapshot_id: str
    abandoned_branch_id: str | None = unless_none(
        "The branch that holds what came after the checkpoint."
    )


async def checkpoint_create(
    params: CheckpointParams, call: CallContext
) -> Outcome[CheckpointResult]:
    """Keep the state of a session under a name, to be able to come back to it."""
    session = await call.open_session(params.session_id)
    store = call.store
    # With positions: a node that is pruned afterwards is restored to its own.
    nodes = [
        {**public_data(node), "position": node.position}
        for node in await store.get_session_graph_nodes(session.id)
    ]
    checkpoint = Checkpoint(
        session_id=session.id,
        branch_id=session.active_branch_id,
        name=params.name,
        description=params.description,
        snapshot={
            "thoughts": [public_data(one) for one in await store.get_session_thoughts(session.id)],
            "branches": [public_data(one) for one in await store.get_session_branches(session.id)],
            "active_branch_id": session.active_branch_id,
            "graph": {
                "nodes": nodes,
                "edges": [public_data(one) for one in await store.get_session_edges(session.id)],
            },
            "created_at": now(),
        },
    )
    steps = [
        move("backtrack", "to come back here and try another way", checkpoint_id=checkpoint.id)
    ]
    changes = Changes(session=touched(session), checkpoints=(checkpoint,))
    shown = call.shows_snapshot(params.include_snapshot)
    return Outcome(CheckpointResult.with_state(checkpoint, shown=shown, next=steps), changes)


async def checkpoint_list(params: CheckpointsParams, call: CallContext) -> Outcome[CheckpointList]:
    """List the checkpoints of a session, newest first."""
    session = await call.existing_session(params.session_id)
    stored = await call.store.get_session_checkpoints(session.id)
    shown = call.shows_snapshot(params.include_snapshot)
    listed = [CheckpointInfo.with_state(one, shown=shown) for one in stored]
    return Outcome(CheckpointList(checkpoints=listed))


async def backtrack(params: BacktrackParams, call: CallContext) -> Outcome[BacktrackResult]:
    """Bring a session back to a checkpoint (thoughts, branches, active branch and graph) and set
    out another way. What came after is kept on an abandoned branch.
    """  # noqa: D205 - a model reads the sentence as it is
    key = params.checkpoint_id
    checkpoint = await call.store.get_checkpoint(key)
    if checkpoint is None:
        text = f"Checkpoint not found: {key}"
        raise unknown_id(CheckpointNotFoundError, text, key, "checkpoint_id")
    if params.session_id is not None and params.session_id != checkpoint.session_id:
        raise invalid_argument("session_id", "Session ID does not match checkpoint")
    session = await call.open_session(checkpoint.session_id)
    own = params.thought or (params.new_direction if call.is_host else None)
    if own is not None:
        reply, given = LinearReply(thought=own, confidence=params.confidence), set[str]()
    else:
        about = f"\nDescription: {checkpoint.description}" if checkpoint.description else ""
        direction = params.new_direction or "Explore an alternative to what was done after it."
        reply = await call.ask(
            "backtracking",
            f"Checkpoint: {checkpoint.name}{about}\nIts state:\n{_state_text(checkpoint)}\n\n"
            f"New direction: {direction}",
            LinearReply,
            session=session,
            parameter="thought",
            shape='"the first step of the new way"',
        )
        given = reply.model_fields_set
    snapshot = values.StateSnapshot(
        session_id=session.id,
        snapshot_type="branch",
        description=f"Backtrack to checkpoint: {checkpoint.name}",
        state_data=checkpoint.snapshot,
    )
    changes, abandoned = await _restore(call, session, checkpoint, by=snapshot.id)
    # The new way follows the last thought on the branch, or on the nearest one above it.
    above = {one["id"]: one["parent_branch_id"] for one in checkpoint.snapshot.get("branches", ())}
    thoughts: Sequence[Mapping[str, Any]] = checkpoint.snapshot.get("thoughts", ())
    branch_id = checkpoint.branch_id
    while not (before := [one["id"] for one in thoughts if one["branch_id"] == branch_id]):
        if branch_id is None:
            break
        branch_id = above.get(branch_id)
    thought = Thought(
        session_id=session.id,
        content=reply.thought,
        confidence=max(reply.confidence, params.confidence),
        is_judged="confidence" in params.model_fields_set | given,
        mode="backtracking",
        parent_id=before[-1] if before else None,
        branch_id=checkpoint.branch_id,
        metadata={"checkpoint_id": checkpoint.id, "new_direction": params.new_direction},
    )
    steps = [
        move("linear", "go on the new way", session.id),
        move("tree", "branch out from here", session.id),
    ]
    branches = {one.id: one for one in await call.store.get_session_branches(session.id)}
    branches |= {one.id: one for one in changes.branches}
    left = ways_left([*branches.values()])
    if left and (ways := open_ways([*branches.values()], branch_id)) and ways[0].id not in left:
        why = f"{ways[0].name!r} is open, and not the way that was left"
        steps.insert(0, move("tree_focus", why, session.id, branch_id=ways[0].id))
    result = BacktrackResult.of(
        thought,
        thought_id=thought.id,
        checkpoint_restored=checkpoint.id,
        confidence=reply.confidence,
        new_branch_id=checkpoint.branch_id,
        snapshot_id=snapshot.id,
        abandoned_branch_id=abandoned.id if abandoned else None,
        next=steps,
    )
    changes = replace(changes, snapshots=(snapshot,), thoughts=(*changes.thoughts, thought))
    return Outcome(result, changes)


def _state_text(checkpoint: Checkpoint) -> str:
    """Describe the state for a model: its last thoughts and active branches, within a budget."""
    lines: list[str] = []
    left = BUDGET_TOKENS
    for thought in reversed(checkpoint.snapshot.get("thoughts", ())):
        line = f"- [{thought['mode']}] {truncated(thought['content'], BUDGET_TOKENS // 4)}"
        left -= estimated_tokens(line)
        if left < 0:
            lines.append("- (earlier thoughts are left out)")
            break
        lines.append(line)
    branches = [
        f"- branch {branch['name']} ({branch['state']})"
        for branch in checkpoint.snapshot.get("branches", ())
        if branch["state"] == "active"
    ]
    return "\n".join([*reversed(lines), *branches[:MAX_BRANCHES]]) or "(nothing yet)"


async def _restore(
    call: CallContext, session: Session, checkpoint: Checkpoint, *, by: str
) -> tuple[Changes, Branch | None]:
    """Return the changes that restore a checkpoint, and the branch of what they abandon, if any.

    Nothing is deleted: what came later is marked as abandoned and put on an abandoned branch.
    `by` is the id of the snapshot that records the backtrack.
    """
    # Older snapshots have no graph and no active branch.
    snapshot = {**checkpoint.snapshot, **checkpoint.snapshot.get("graph", {})}
    kept = {name: {part["id"]: part for part in snapshot.get(name, ())} for name in _PARTS}
    abandoned = Branch(
        session_id=session.id,
        name=f"Abandoned after {checkpoint.name}",
        parent_branch_id=snapshot.get("active_branch_id"),
        is_judged=False,
        state="abandoned",
    )
    # The branch that is active again, and those above it, are no ways that were left.
    kept_line: set[str | None] = {None}
    above = snapshot.get("active_branch_id")
    while above not in kept_line:
        kept_line.add(above)
        above = kept["branches"].get(above, {}).get("parent_branch_id")
    last, ways = "", dict[str, str]()

    def moved(branch_id: str | None) -> str | None:
        """Return the branch of a later part; it must leave one that the checkpoint kept."""
        return abandoned.id if branch_id is None or branch_id in kept["branches"] else branch_id

    has_later = False
    rows: dict[str, tuple[Any, ...]] = {}
    for name, kind in _PARTS.items():
        changed: list[_Part] = []
        present = await call.store.find(kind, session_id=session.id)
        for part in present:
            if part.id in kept[name]:
                continue
            match part:
                case Branch() if part.state != "abandoned":
                    left = replace(part, state="abandoned", updated_at=now())
                    parent = moved(part.parent_branch_id)
                    changed.append(replace(left, parent_branch_id=parent))
                case Thought() if part.abandoned_by is None:
                    last = one_line(part.content, MAX_LEFT_CHARS)
                    if (way := part.branch_id) and way in kept["branches"] and way not in kept_line:
                        ways[way] = last
                    changed.append(replace(part, abandoned_by=by, branch_id=moved(part.branch_id)))
                case values.GraphNode() if part.abandoned_by is None:
                    changed.append(replace(part, abandoned_by=by, is_active=False))
                case values.GraphEdge() if part.abandoned_by is None:
                    changed.append(replace(part, abandoned_by=by))
                case _:
                    pass  # an earlier backtrack left it behind
        has_later = has_later or (bool(changed) and kind is not values.GraphEdge)
        # What differs from the checkpoint is written as it was; deleted parts come back.
        current = {part.id: part for part in present}
        names = {field.name for field in fields(kind)}
        for key, data in kept[name].items():
            state = {field: value for field, value in data.items() if field in names}
            if "abandoned_by" in names:
                state["abandoned_by"] = None
            before = current.get(key)
            after = kind(**state) if before is None else replace(before, **state)
            if after != before:
                changed.append(after)
        rows[name] = (*changed,)
    if has_later:
        found = {"checkpoint_id": checkpoint.id, "snapshot_id": by, "last": last, WAYS_LEFT: ways}
        abandoned = replace(abandoned, metadata=found)
        rows["branches"] = (abandoned, *rows["branches"])
    active = snapshot.get("active_branch_id")
    changes = Changes(session=replace(touched(session), active_branch_id=active), **rows)
    return changes, abandoned if has_later else None
