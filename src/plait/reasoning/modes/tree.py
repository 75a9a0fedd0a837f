"""Tree reasoning: several branches that can be followed, completed or abandoned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from plait.reasoning import values
from plait.reasoning.arguments import SessionParams, invalid_argument
from plait.reasoning.call_context import CallContext, Outcome, touched
from plait.reasoning.fields import AnyText, Id, Integer, Number, Params, Text, clamped, optional
from plait.reasoning.graphs import leads_to
from plait.reasoning.prompts import PROMPTS
from plait.reasoning.results import ListResult, Result, ResultPart, SessionResult, move
from plait.reasoning.values import Branch, Changes, CrossRef, Session, Thought, now

WAYS_LEFT = "ways_left"
"""Where the branch of what a backtrack left keeps them, in its metadata."""


class CrossRefParam(Params):
    """How the branch relates to another."""

    to_branch: Id = Field(description="The id of the other branch.")
    type: Annotated[values.RefType, BeforeValidator(lambda value: str(value).lower())]
    reason: AnyText | None = None
    strength: Number = clamped(0, 1, "How strongly.", default=1.0)


class BranchParam(Params):
    """A way to go on that the caller thought of."""

    thought: Text
    confidence: Number = clamped(0, 1, "How promising it is.", default=0.8)
    rationale: AnyText = ""


class TreeReply(Params):
    """Several ways to go on."""

    branches: list[BranchParam] = Field(min_length=1)
    recommended_branch: Integer = 0


class TreeParams(Params):
    """Arguments of `reasoning_tree`."""

    content: Text = Field(description="The thought from which to branch out.")
    session_id: Id | None = optional("The session to go on with.")
    branch_id: Id | None = optional("The branch to branch out from; else the active one.")
    num_branches: Integer = clamped(2, 4, "How many ways to open.", default=3)
    confidence: Number = clamped(0, 1, "How sure you are of the thought.", default=0.8)
    cross_refs: list[CrossRefParam] = Field(
        default_factory=list[CrossRefParam], description="How this branch relates to others."
    )
    branches: list[BranchParam] | None = optional(
        "Your own ways to go on, 2 to 4; then no model is asked."
    )
    recommended_branch: Integer | None = optional(
        "The index of the best of your own branches; else the one with the highest confidence."
    )


class ChildBranch(ResultPart):
    """A way that was opened."""

    id: str
    name: str
    confidence: float
    rationale: str


class TreeResult(SessionResult):
    """The ways that were opened."""

    branch_id: str
    thought_id: str
    content: str
    confidence: float
    child_branches: list[ChildBranch]
    recommended_branch_index: int
    parent_branch: str | None
    cross_refs_created: int


class FocusParams(SessionParams):
    """Arguments of `reasoning_tree_focus`."""

    branch_id: Id = Field(description="The branch to make active.")


class CompleteParams(Params):
    """Arguments of `reasoning_tree_complete`."""

    EXTENSIONS = frozenset({"session_id"})

    branch_id: Id
    completed: bool = Field(default=True, description="False marks it as abandoned.")
    session_id: Id | None = optional("The session; needed with a short id.")


class BranchInfo(ResultPart):
    """A branch."""

    id: str
    session_id: str
    name: str
    parent_branch_id: str | None
    priority: float
    confidence: float
    state: values.BranchState
    created_at: str
    updated_at: str
    metadata: dict[str, Any] | None


class BranchResult(BranchInfo, Result):
    """A branch as the whole result."""


class BranchList(ListResult):
    """The branches of a session."""

    branches: list[BranchInfo]


def label_of(thought: str) -> str:
    """Return the start of a thought, as the name of its branch."""
    label = " ".join(thought.split())
    return (
        label if len(label) <= MAX_LABEL_CHARACTERS else f"{label[: MAX_LABEL_CHARACTERS - 3]}..."
    )


MAX_LABEL_CHARACTERS = 30
"""A branch is named in a line, with what else there is to say of it."""


async def tree(params: TreeParams, call: CallContext) -> Outcome[TreeResult]:
    """Open 2 to 4 distinct ways to go on from a thought, each as a branch, and recommend one.

    Use it when there is more than one way.
    """
    session = await call.new_or_open_session(params.session_id, "tree")
    place = await call.place(session, params.branch_id)
    branch, tip = place.branch, place.tip
    if branch is None:
        # The first branch begins a tree of its own.
        branch, tip = Branch(session_id=session.id, name="Root", is_judged=False), None
    elif params.branch_id is not None:
        name = label_of(params.content)
        branch = Branch(
            session_id=session.id, name=name, parent_branch_id=branch.id, is_judged=False
        )
    refs = await _cross_refs(call, session, branch, params.cross_refs)
    ways: Sequence[BranchParam]
    if params.branches is not None:
        ways, best = params.branches, params.recommended_branch
        if not 2 <= len(ways) <= 4:
            raise invalid_argument("branches", "Between 2 and 4 branches are needed")
        if best is not None and not 0 <= best < len(ways):
            text = f"Must be an index from 0 to {len(ways) - 1}"
            raise invalid_argument("recommended_branch", text)
    else:
        context = await call.context(session, place, title="Earlier thoughts")
        count = params.num_branches
        reply = await call.ask(
            "tree",
            f"{context}Explore ways to go on from this thought:\n{params.content}",
            TreeReply,
            session=session,
            system=PROMPTS["tree"].replace("2-4 distinct paths", f"{count} distinct paths"),
            parameter="branches",
            shape='[{"thought": "…", "confidence": 0.0–1.0, "rationale": "…"}, …] '
            f"({count} distinct ways), and recommended_branch=<index of the best>",
        )
        # A model may answer with more than it was asked for.
        ways, best = reply.branches[:count], reply.recommended_branch
    judged = [index for index, way in enumerate(ways) if "confidence" in way.model_fields_set]
    is_recommended = best is not None or bool(judged)
    if best is None or not 0 <= best < len(ways):
        best = max(judged, key=lambda index: ways[index].confidence, default=0)
    new = partial(Thought, session_id=session.id, mode="tree")
    thought = new(
        content=params.content,
        confidence=params.confidence,
        is_judged="confidence" in params.model_fields_set,
        parent_id=tip.id if tip else None,
        branch_id=branch.id,
    )
    children: list[Branch] = []
    for index, way in enumerate(ways):
        child = Branch(
            session_id=session.id,
            name=f"Option {index + 1}: {label_of(way.thought)}",
            parent_branch_id=branch.id,
            priority=2.0 if index == best else 1.0,
            confidence=way.confidence,
            is_judged="confidence" in way.model_fields_set,
        )
        children.append(child)
    steps = [
        new(
            content=way.thought,
            confidence=way.confidence,
            is_judged=child.is_judged,
            parent_id=thought.id,
            branch_id=child.id,
            metadata={"rationale": way.rationale},
        )
        for way, child in zip(ways, children, strict=True)
    ]
    follow = (
        f"follow the {'recommended' if is_recommended else 'first'} way, {children[best].name!r}"
    )
    keep = "before you follow one way, to be able to come back"
    result = TreeResult.of(
        thought,
        thought_id=thought.id,
        child_branches=[
            ChildBranch.of(way, id=child.id, name=child.name)
            for way, child in zip(ways, children, strict=True)
        ],
        recommended_branch_index=best,
        parent_branch=branch.parent_branch_id,
        cross_refs_created=len(refs),
        next=[
            move("tree_focus", follow, session.id, branch_id=children[best].id),
            move("checkpoint_create", keep, session.id, name="before the first way"),
        ],
    )
    changes = Changes(
        session=replace(touched(session), active_branch_id=session.active_branch_id or branch.id),
        branches=(*children,) if branch is place.branch else (branch, *children),
        cross_refs=(*refs,),
        thoughts=(thought, *steps),
    )
    return Outcome(result, changes)


async def _cross_refs(
    call: CallContext, session: Session, branch: Branch, params: Sequence[CrossRefParam]
) -> list[CrossRef]:
    """Return the references of a branch; branches may not depend on each other in a circle."""
    refs: list[CrossRef] = []
    known = await call.store.get_session_cross_refs(session.id) if params else ()
    for index, param in enumerate(params):
        other = await call.branch_of(session, param.to_branch)
        if param.type == "depends":
            arrows = [
                (ref.from_branch_id, ref.to_branch_id)
                for ref in (*known, *refs)
                if ref.ref_type == "depends"
            ]
            if leads_to(arrows, other.id, branch.id):
                field = f"cross_refs[{index}].to_branch"
                raise invalid_argument(field, "Branches cannot depend on each other in a circle")
        ref = CrossRef(
            from_branch_id=branch.id,
            to_branch_id=other.id,
            ref_type=param.type,
            reason=param.reason,
            strength=param.strength,
        )
        refs.append(ref)
    return refs


async def tree_focus(params: FocusParams, call: CallContext) -> Outcome[BranchResult]:
    """Make a branch the active one, so that reasoning goes on from it."""
    session = await call.open_session(params.session_id)
    branch = await call.branch_of(session, params.branch_id)
    steps = [
        move("linear", "take the next step on this way", session.id),
        move("tree", "branch out from here", session.id),
        move("tree_complete", "when this way has ended", branch_id=branch.id),
    ]
    changes = Changes(session=replace(touched(session), active_branch_id=branch.id))
    if branch.state != "active":
        # To go on with a branch that was ended is to open it again.
        branch = replace(branch, state="active", updated_at=now())
        changes = replace(changes, branches=(branch,))
    return Outcome(BranchResult.of(branch, next=steps), changes)


async def tree_list(params: SessionParams, call: CallContext) -> Outcome[BranchList]:
    """List all branches of a session with their states."""
    session = await call.existing_session(params.session_id)
    branches = await call.store.get_session_branches(session.id)
    return Outcome(BranchList(branches=[BranchInfo.of(branch) for branch in branches]))


async def tree_complete(params: CompleteParams, call: CallContext) -> Outcome[BranchResult]:
    """Mark a branch as completed, or as abandoned."""
    branch = await call.existing_branch(params.branch_id)
    session = await call.open_session(params.session_id or branch.session_id)
    branch = await call.branch_of(session, branch.id)
    ended = replace(
        branch, state="completed" if params.completed else "abandoned", updated_at=now()
    )
    branches = await call.store.get_session_branches(session.id)
    ends, left = open_ways(branches, branch.id), ways_left(branches)
    steps = [move("session_conclude", "no way is open any more", session.id)]
    if ends:
        best = ends[0]
        why = f"{len(ends)} ways are open; the best is {best.name!r}"
        if best.id in left:
            why = f"{best.name!r} is open, but was left after: {left[best.id]}"
        focus = move("tree_focus", why, session.id, branch_id=best.id)
        steps = [*steps, focus] if best.id in left else [focus]
    changes = Changes(session=touched(session), branches=(ended,))
    return Outcome(BranchResult.of(ended, next=steps), changes)


def open_ways(branches: Sequence[Branch], current: str | None) -> list[Branch]:
    """Return the branches that can be followed beside the current one, the best first.

    Those that a backtrack left come last: what failed on them would fail again.
    """
    parents = {branch.parent_branch_id for branch in branches if branch.state == "active"}
    ways = [
        branch
        for branch in branches
        if branch.state == "active" and branch.id not in parents and branch.id != current
    ]
    left = ways_left(branches)
    ways.sort(key=lambda way: (way.id in left, -way.priority, not way.is_judged, -way.confidence))
    return ways


def ways_left(branches: Sequence[Branch]) -> dict[str, str]:
    """Return the ways that backtracks left, with the last thought on each."""
    return {
        key: text
        for branch in branches
        for key, text in (branch.metadata or {}).get(WAYS_LEFT, {}).items()
    }
