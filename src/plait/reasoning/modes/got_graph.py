"""Graph of thoughts: create, prune, finalize and read a graph, without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pydantic import Field

from plait.errors import GraphNotFoundError, NodeNotFoundError
from plait.reasoning.arguments import invalid_argument, session_error, unknown_id
from plait.reasoning.backends.settings import GotLimits
from plait.reasoning.call_context import CallContext, Outcome, touched
from plait.reasoning.fields import AnyText, Id, Integer, Number, Params, Text, clamped, optional
from plait.reasoning.graphs import prunable
from plait.reasoning.prompts import shortened
from plait.reasoning.results import Move, ResultPart, SessionResult, move
from plait.reasoning.values import Changes, Graph, GraphEdge, GraphNode, Session

_MAX_CONCLUSIONS = 3


class ConfigParam(Params):
    """The limits of one graph."""

    max_nodes: Integer | None = clamped(10, 1000, "How many nodes it may have.", default=None)
    max_depth: Integer | None = clamped(1, 20, "How deep it may grow.", default=None)
    default_k: Integer | None = clamped(1, 10, "How many continuations to make.", default=None)
    prune_threshold: Number | None = clamped(0, 1, "Below which score to cut.", default=None)


class ConfigInfo(ResultPart):
    """The limits of a graph, as they are."""

    max_nodes: int
    max_depth: int
    default_k: int
    prune_threshold: float


class InitParams(Params):
    """Arguments of `reasoning_got_init`."""

    content: Text = Field(description="The thought to begin with.")
    problem: AnyText | None = optional("The problem to be solved.")
    session_id: Id | None = optional("The session to go on with.")
    config: ConfigParam | None = optional("Limits of this graph.")


class InitResult(SessionResult):
    """The graph that was begun."""

    graph_id: str
    root_node_id: str
    content: str
    config: ConfigInfo


class GraphParams(Params):
    """Arguments of every tool that works on a graph."""

    session_id: Id | None = optional("The session; its newest graph is meant.")
    graph_id: Id | None = optional("The graph, if the session has several.")


class PruneParams(GraphParams):
    """Arguments of `reasoning_got_prune`."""

    threshold: Number | None = clamped(
        0, 1, "Below which score to cut; else the one of the graph.", default=None
    )


class PruneResult(SessionResult):
    """What was cut."""

    pruned_count: int
    remaining_count: int
    threshold_used: float
    pruned_node_ids: list[str]


class FinalizeParams(GraphParams):
    """Arguments of `reasoning_got_finalize`."""

    terminal_node_ids: list[Id] = Field(
        default_factory=list[Id],
        description="The conclusions; left out, the three active nodes with the best scores.",
    )


class ConclusionInfo(ResultPart):
    """A conclusion of a graph."""

    node_id: str
    content: str
    score: float | None
    depth: int


class FinalizeResult(SessionResult):
    """The conclusions."""

    terminal_count: int
    conclusions: list[ConclusionInfo]


class StateParams(GraphParams):
    """Arguments of `reasoning_got_state`."""

    EXTENSIONS = frozenset({"include_content"})

    include_content: bool | None = optional("True shows the texts of nodes, cut.")


class NodeInfo(ResultPart):
    """A node, with the beginning of its text."""

    node_id: str
    content: str
    node_type: str
    score: float | None
    depth: int
    is_active: bool


class StateResult(SessionResult):
    """The state of a graph."""

    OMIT_IF_NONE = frozenset({"problem", "nodes"})

    graph_id: str
    total_nodes: int
    active_nodes: int
    terminal_nodes: int
    total_edges: int
    max_depth: int
    root_node_ids: list[str]
    active_node_ids: list[str]
    terminal_node_ids: list[str]
    problem: str | None = None
    nodes: list[NodeInfo] | None = None


_MOST_NODES = 50
"""How many nodes a state shows, the best first."""

_MOST_CONTENT = 200
"""How many characters of a node a state shows."""


def node_infos(nodes: Sequence[GraphNode]) -> list[NodeInfo]:
    """Return nodes with the beginnings of their texts: conclusions, active ones, then others."""
    order = sorted(
        nodes, key=lambda one: (not one.is_terminal, not one.is_active, -(one.score or 0))
    )
    return [
        NodeInfo.of(node, node_id=node.id, content=shortened(node.content, _MOST_CONTENT))
        for node in order[:_MOST_NODES]
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGraph:
    """A graph with its nodes and edges that are not abandoned."""

    session: Session
    graph: Graph
    limits: GotLimits
    nodes: Sequence[GraphNode]
    edges: Sequence[GraphEdge]

    def node(self, field: str, key: str) -> GraphNode:
        """Return the node with this id, which must be in this graph."""
        for node in self.nodes:
            if node.id == key:
                return node
        raise unknown_id(NodeNotFoundError, f"Node not found in this graph: {key}", key, field)

    def new_node(self, content: str, **fields: Any) -> GraphNode:
        """Return a new node of this graph."""
        return GraphNode(
            graph_id=self.graph.id, session_id=self.session.id, content=content, **fields
        )

    def active(self) -> list[GraphNode]:
        """Return the active nodes, the shallowest and oldest first."""
        opened = [node for node in self.nodes if node.is_active]
        return sorted(opened, key=lambda node: (node.depth, node.position or 0))

    def room(self) -> int:
        """Return how many more nodes the graph may have, which must not be full."""
        left = self.limits.max_nodes - len(self.nodes)
        if left <= 0:
            reason = f"Maximum of {self.limits.max_nodes} nodes reached; prune or finalize"
            raise invalid_argument("nodes", reason)
        return left


async def graph_for(params: GraphParams, call: CallContext, *, reading: bool = False) -> OpenGraph:
    """Return the graph with this id, or the newest one of the session."""
    if params.graph_id is not None:
        graph = await call.store.get_graph(params.graph_id)
        if graph is None:
            key = params.graph_id
            raise unknown_id(GraphNotFoundError, f"Graph not found: {key}", key, "graph_id")
        if params.session_id not in (None, graph.session_id):
            text = "Graph does not belong to this session"
            raise unknown_id(GraphNotFoundError, text, graph.id, "graph_id")
    elif params.session_id is not None:
        await call.existing_session(params.session_id)
        graph = await call.store.get_latest_graph(params.session_id)
        if graph is None:
            raise session_error("Session has no graph; call reasoning_got_init first")
    else:
        raise invalid_argument("session_id", "Either session_id or graph_id must be provided")
    session = await call.existing_session(graph.session_id)
    if not reading:
        session = await call.new_or_open_session(session.id, "got")
    return OpenGraph(
        session=session,
        graph=graph,
        limits=replace(call.limits, **graph.config),
        nodes=await call.store.get_graph_nodes(graph.id),
        edges=await call.store.get_graph_edges(graph.id),
    )


def next_in(opened: OpenGraph, nodes: Sequence[GraphNode]) -> list[Move]:
    """Suggest the next calls for a graph that has these nodes; none of them would be refused."""
    session = opened.session
    if session.status == "concluded":
        return [move("session_reopen", "to go on with it", session.id)]
    ids = {"session_id": session.id, "graph_id": opened.graph.id}
    limits = opened.limits
    active = [node for node in nodes if node.is_active]
    ranked = sorted(active, key=lambda node: node.score or 0, reverse=True)
    growing = [node for node in ranked if node.depth < limits.max_depth]
    has_room = len(nodes) < limits.max_nodes
    moves: list[Move] = []
    if bare := next((node for node in active if node.score is None and not node.is_root), None):
        moves.append(move("got_score", "it has no score yet", **ids, node_id=bare.id))
    if growing and has_room:
        best = growing[0]
        why = f"the best active node{f' has a score of {best.score:.2f}' if best.score else ''}"
        moves.append(move("got_generate", why, **ids, node_id=best.id))
    if len(growing) > 1 and has_room:
        pair = [node.id for node in growing[:2]]
        moves.append(move("got_aggregate", "join the two best", **ids, node_ids=pair))
    scored = [node for node in active if node.score is not None]
    if scored and (not moves or max(node.score or 0 for node in scored) >= 0.8):
        moves.append(move("got_finalize", "draw conclusions", **ids))
    return moves or [_without_frontier(opened, nodes)]


def _without_frontier(opened: OpenGraph, nodes: Sequence[GraphNode]) -> Move:
    """Suggest a call for a graph in which nothing is active, or nothing can be added."""
    session, limits = opened.session, opened.limits
    open_ends = [node for node in nodes if node.depth < limits.max_depth and not node.is_terminal]
    is_concluded = any(node.is_terminal for node in nodes)
    if is_concluded or not open_ends or len(nodes) >= limits.max_nodes:
        return move("session_conclude", "close the session with what was found", session.id)
    best = max(open_ends, key=lambda node: node.score or 0)
    why = "no node is active; this is the best to go on from"
    return move("got_generate", why, session.id, graph_id=opened.graph.id, node_id=best.id)


async def got_init(params: InitParams, call: CallContext) -> Outcome[InitResult]:
    """Begin a graph of thoughts, for problems with many parts that depend on each other.

    A session may hold several.
    """
    session = await call.new_or_open_session(params.session_id, "got")
    config = params.config.model_dump(exclude_none=True) if params.config else {}
    limits = replace(call.limits, **config)
    graph = Graph(session_id=session.id, problem=params.problem or None, config=asdict(limits))
    root = GraphNode(
        graph_id=graph.id,
        session_id=session.id,
        content=params.content,
        node_type="root",
        is_root=True,
    )
    result = InitResult(
        session_id=session.id,
        graph_id=graph.id,
        root_node_id=root.id,
        content=params.content,
        config=ConfigInfo.of(limits),
        next=[move("got_generate", "grow the graph", session.id, graph_id=graph.id)],
    )
    return Outcome(result, Changes(session=touched(session), graphs=(graph,), nodes=(root,)))


async def got_prune(params: PruneParams, call: CallContext) -> Outcome[PruneResult]:
    """Delete the weak ends of the graph, and what becomes a weak end by that."""
    opened = await graph_for(params, call)
    threshold = opened.limits.prune_threshold if params.threshold is None else params.threshold
    cut = prunable(opened.nodes, opened.edges, threshold)
    kept = [node for node in opened.nodes if node.id not in set(cut)]
    result = PruneResult(
        session_id=opened.session.id,
        pruned_count=len(cut),
        remaining_count=len(kept),
        threshold_used=threshold,
        pruned_node_ids=cut,
        next=next_in(opened, kept),
    )
    if not cut:
        return Outcome(result)
    return Outcome(result, Changes(session=touched(opened.session), removed_nodes=(*cut,)))


async def got_finalize(params: FinalizeParams, call: CallContext) -> Outcome[FinalizeResult]:
    """Mark nodes of the graph as its conclusions."""
    opened = await graph_for(params, call)
    if params.terminal_node_ids:
        keys = [*dict.fromkeys(params.terminal_node_ids)]
        chosen = [opened.node("terminal_node_ids", key) for key in keys]
    else:
        scored = [node for node in opened.active() if node.score is not None]
        chosen = sorted(scored, key=lambda node: node.score or 0, reverse=True)[:_MAX_CONCLUSIONS]
    if not chosen:
        raise invalid_argument(
            "terminal_node_ids",
            "There are no active nodes with a score; score some, or name the conclusions",
        )
    ended = [
        replace(node, is_terminal=True, is_active=False, node_type="terminal") for node in chosen
    ]
    result = FinalizeResult(
        session_id=opened.session.id,
        terminal_count=len(ended),
        conclusions=[ConclusionInfo.of(node, node_id=node.id) for node in ended],
        next=[move("session_conclude", "close the session with what was found", opened.session.id)],
    )
    return Outcome(result, Changes(session=touched(opened.session), nodes=(*ended,)))


async def got_state(params: StateParams, call: CallContext) -> Outcome[StateResult]:
    """Tell how a graph stands: its nodes, edges, depth and frontier."""
    opened = await graph_for(params, call, reading=True)
    active = opened.active()
    ends = sorted(
        (node for node in opened.nodes if node.is_terminal),
        key=lambda node: node.score or 0,
        reverse=True,
    )
    result = StateResult(
        session_id=opened.session.id,
        graph_id=opened.graph.id,
        total_nodes=len(opened.nodes),
        active_nodes=len(active),
        terminal_nodes=len(ends),
        total_edges=len(opened.edges),
        max_depth=max((node.depth for node in opened.nodes), default=0),
        root_node_ids=[node.id for node in opened.nodes if node.is_root],
        active_node_ids=[node.id for node in active],
        terminal_node_ids=[node.id for node in ends],
        problem=opened.graph.problem if params.include_content else None,
        nodes=node_infos(opened.nodes) if params.include_content else None,
        next=next_in(opened, opened.nodes),
    )
    return Outcome(result)
