"""The parts of a reasoning session, as frozen values, and the changes of one call.

Times are RFC 3339 strings in UTC, always with microseconds, so that they sort as strings.
A `position` is the place in the session; it is assigned when a value is stored. `abandoned_by` is
the id of the snapshot of the backtrack that abandoned a value.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeVar

BranchState = Literal["active", "completed", "abandoned"]
SessionStatus = Literal["open", "concluded"]
RefType = Literal["supports", "contradicts", "extends", "alternative", "depends"]
NodeType = Literal[
    "thought", "hypothesis", "conclusion", "aggregation", "root", "refinement", "terminal"
]
EdgeType = Literal["generates", "refines", "aggregates", "supports", "contradicts"]
SnapshotType = Literal["full", "incremental", "branch"]

LOW_CONFIDENCE = 0.6
"""Below this confidence, results suggest a reflection."""

Json = Mapping[str, Any]
"""Additional JSON data of a value."""


def new_id() -> str:
    """Return a new unique id."""
    return str(uuid.uuid4())


def now() -> str:
    """Return the current time as it is stored."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def fingerprint(text: str) -> str:
    """Return a hash that ignores case and spacing."""
    folded = " ".join(text.casefold().split())
    return hashlib.sha256(folded.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """Something that is stored under an id."""

    id: str = field(default_factory=new_id)


ValueT = TypeVar("ValueT", bound=Value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(Value):
    """A reasoning session."""

    mode: str
    created_at: str = field(default_factory=now)
    updated_at: str = field(default_factory=now)
    metadata: Json | None = None
    active_branch_id: str | None = None
    status: SessionStatus = "open"
    conclusion: Json | None = None
    """Set while the session is concluded."""
    version: int = 0
    """The number of writes; 0 before the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(Value):
    """Something in a session."""

    session_id: str
    created_at: str = field(default_factory=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged(Part):
    """Something that somebody may have judged."""

    confidence: float = 0.8
    is_judged: bool = True
    """Whether somebody gave the confidence; otherwise it is the default of the contract."""

    @property
    def score(self) -> float | None:
        """The confidence, if somebody gave it."""
        return self.confidence if self.is_judged else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Thought(Judged):
    """One step of reasoning."""

    content: str
    mode: str
    parent_id: str | None = None
    branch_id: str | None = None
    metadata: Json | None = None
    position: int | None = None
    abandoned_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch(Judged):
    """One path through a tree of thoughts."""

    name: str
    parent_branch_id: str | None = None
    priority: float = 1.0
    state: BranchState = "active"
    updated_at: str = field(default_factory=now)
    metadata: Json | None = None
    position: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossRef(Value):
    """How one branch relates to another."""

    from_branch_id: str
    to_branch_id: str
    ref_type: RefType
    reason: str | None = None
    strength: float = 1.0
    created_at: str = field(default_factory=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint(Part):
    """A named state of a session that a backtrack can restore."""

    branch_id: str | None = None
    name: str
    description: str | None = None
    snapshot: Json
    position: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSnapshot(Part):
    """A state that was restored or captured."""

    parent_snapshot_id: str | None = None
    snapshot_type: SnapshotType
    description: str | None = None
    state_data: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph(Part):
    """A graph of thoughts; a session may hold several."""

    problem: str | None = None
    config: Json
    position: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode(Part):
    """One thought in a graph."""

    graph_id: str
    content: str
    node_type: NodeType = "thought"
    score: float | None = None
    depth: int = 0
    is_active: bool = True
    is_terminal: bool = False
    is_root: bool = False
    metadata: Json | None = None
    position: int | None = None
    abandoned_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphEdge(Part):
    """How one node came from another."""

    graph_id: str
    from_node: str
    to_node: str
    edge_type: EdgeType = "generates"
    weight: float = 1.0
    metadata: Json | None = None
    abandoned_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation(Value):
    """The record of a request to a model, or of a tool call that sent none."""

    session_id: str | None = None
    tool_name: str
    input: Json
    output: Json | None = None
    pipe_name: str | None = None
    latency_ms: int | None = None
    success: bool = True
    error: str | None = None
    created_at: str = field(default_factory=now)
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    backend: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The rows that one call writes together; existing rows are replaced, parents come first."""

    session: Session | None = None
    """The new state of the session; its `version` is the one that was read."""
    branches: tuple[Branch, ...] = ()
    cross_refs: tuple[CrossRef, ...] = ()
    snapshots: tuple[StateSnapshot, ...] = ()
    thoughts: tuple[Thought, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    graphs: tuple[Graph, ...] = ()
    nodes: tuple[GraphNode, ...] = ()
    edges: tuple[GraphEdge, ...] = ()
    invocations: tuple[Invocation, ...] = ()
    removed_nodes: tuple[str, ...] = ()
    """Ids of nodes to delete, with their edges."""


LETTERS: Final[Mapping[str, type[Value]]] = {
    "t": Thought,
    "b": Branch,
    "n": GraphNode,
    "c": Checkpoint,
    "g": Graph,
}
"""The first letter of a short id, such as `t12`; the number is the position in the session."""


_INTERNAL = frozenset({"position", "abandoned_by", "is_judged"})


def public_data(value: Thought | Branch | Checkpoint | GraphNode | GraphEdge) -> dict[str, Any]:
    """Return a value as results show it, without internal fields."""
    return {name: item for name, item in asdict(value).items() if name not in _INTERNAL}
