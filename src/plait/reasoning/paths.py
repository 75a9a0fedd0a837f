"""Where reasoning goes on in a session: the branch, the thought to follow, and its path."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from plait.reasoning.prompts import BUDGET_TOKENS, MOST_THOUGHTS, as_lines, within_budget
from plait.reasoning.storage.port import Storage
from plait.reasoning.values import Branch, Session, Thought

_MOST_OTHERS = 5
"""How many thoughts of other branches a prompt shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in a session; thoughts that are added there follow `tip`."""

    branch: Branch | None = None
    tip: Thought | None = None

    @property
    def branch_id(self) -> str | None:
        """The id of the branch."""
        return self.branch.id if self.branch else None

    @property
    def tip_id(self) -> str | None:
        """The id of the last thought on the path."""
        return self.tip.id if self.tip else None


async def current_place(store: Storage, session: Session) -> Place:
    """Return the end of the active branch, or of the nearest one above it that is not ended."""
    branch = await _branch(store, session.active_branch_id)
    while branch is not None and branch.state != "active":
        branch = await _branch(store, branch.parent_branch_id)
    return await place_on(store, session, branch)


async def place_on(store: Storage, session: Session, branch: Branch | None) -> Place:
    """Return the end of a branch; one without thoughts goes on from the branch above it."""
    above = branch
    while above is not None:
        found = await store.find(Thought, abandoned=False, newest=True, limit=1, branch_id=above.id)
        if found:
            return Place(branch=branch, tip=found[0])
        above = await _branch(store, above.parent_branch_id)
    return Place(branch=branch, tip=await store.get_latest_thought(session.id))


async def _branch(store: Storage, key: str | None) -> Branch | None:
    return await store.get_branch(key) if key is not None else None


async def path_to(store: Storage, tip: Thought | None) -> list[Thought]:
    """Return the last thoughts of the path that ends with a thought, oldest first."""
    if tip is None:
        return []
    path = [*await store.get_thought_chain(tip, MOST_THOUGHTS), tip]
    if path[0].branch_id is None or len(path) >= MOST_THOUGHTS:
        return path
    # The first branch of a session follows the thoughts before it, without a link to them.
    before = await store.find(
        Thought, abandoned=False, newest=True, limit=1, session_id=tip.session_id, branch_id=None
    )
    if before and (before[0].position or 0) < (path[0].position or 0):
        path = [*await store.get_thought_chain(before[0], MOST_THOUGHTS), before[0], *path]
    return path


async def context_at(
    store: Storage, session: Session, place: Place, *, title: str, most: int = MOST_THOUGHTS
) -> str:
    """Return the thoughts that a prompt shows: the path, then the best of other branches."""
    path = await path_to(store, place.tip)
    first = await store.get_first_thought(session.id)
    thoughts = within_budget(first, path, most=most, budget=BUDGET_TOKENS)
    if not thoughts:
        return ""
    text = f"{title}:\n{as_lines(thoughts)}\n\n"
    if place.branch is not None:
        text += await _others(store, session, {thought.id for thought in (*path, *thoughts)})
    return text


async def _others(store: Storage, session: Session, path: Collection[str]) -> str:
    """Return the best thoughts that are not on the path, each with its branch."""
    best = await store.get_best_thoughts(session.id, _MOST_OTHERS + len(path))
    others = [thought for thought in best if thought.id not in path][:_MOST_OTHERS]
    if not others:
        return ""
    branches = {branch.id: branch for branch in await store.get_session_branches(session.id)}
    lines = [
        f"- [{branch.name}, {branch.state}] {as_lines([thought]).removeprefix('- ')}"
        for thought in others
        if (branch := branches.get(thought.branch_id or "")) is not None
    ]
    return "Other branches, not part of this path:\n" + "\n".join(lines) + "\n\n" if lines else ""
