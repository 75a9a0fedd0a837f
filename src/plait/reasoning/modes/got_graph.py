"""Graphs of thoughts: begin one, cut it back, end it, and look at it; no model is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from pydantic import Field

from plait.reasoning.arguments import (
    Key,
    Number,
    Params,
    Text,
    Whole,
    Words,
    invalid,
    ranged,
    session_fault,
)
from plait.reasoning.backends.settings import GotLimits
from plait.reasoning.call_context import Outcome, Work, known_session, session_for, touched
from plait.reasoning.graphs import prunable
from plait.reasoning.results import Move, Result, Shown, move
from plait.reasoning.values import Changes, Graph, GraphEdge, GraphNode, Session

_MOST_CONCLUSIONS = 3


class ConfigParam(Params):
    """The limits of one graph."""

    max_nodes: Whole | None = ranged(10, 1000, "How many nodes it may have.", default=None)
    max_depth: Whole | None = ranged(1, 20, "How deep it may grow.", default=None)
    default_k: Whole | None = ranged(1, 10, "How many continuations to make.", default=None)
    prune_threshold: Number | None = ranged(0, 1, "Below which score to cut.", default=None)


class ConfigShown(Shown):
    """The limits of a graph, as they are."""

    max_nodes: int
    max_depth: int
    default_k: int
    prune_threshold: float


class InitParams(Params):
    """Arguments of `reasoning_got_init`."""

    content: Text = Field(description="The thought to begin with.")
    problem: Words | None = Field(default=None, description="The problem to be solved.")
    session_id: Key | None = Field(default=None, description="The session to go on with.")
    config: ConfigParam | None = Field(default=None, description="Limits of this graph.")


class InitResult(Result):
    """The graph that was begun."""

    session_id: str
    graph_id: str
    root_node_id: str
    content: str
    config: ConfigShown


class GraphParams(Params):
    """Arguments of every tool that works on a graph."""

    session_id: Key | None = Field(
        default=None, description="The session; its newest graph is meant."
    )
    graph_id: Key | None = Field(default=None, description="The graph, if the session has several.")


class PruneParams(GraphParams):
    """Arguments of `reasoning_got_prune`."""

    threshold: Number | None = ranged(
        0, 1, "Below which score to cut; else the one of the graph.", default=None
    )


class PruneResult(Result):
    """What was cut."""

    session_id: str
    pruned_count: int
    remaining_count: int
    threshold_used: float
    pruned_node_ids: list[str]


class FinalizeParams(GraphParams):
    """Arguments of `reasoning_got_finalize`."""

    terminal_node_ids: list[Key] = Field(
        default_factory=list[Key],
        description="The conclusions; left out, the three active nodes with the best scores.",
    )


class ConclusionShown(Shown):
    """A conclusion of a graph."""

    node_id: str
    content: str
    score: float | None
    depth: int


class FinalizeResult(Result):
    """The conclusions."""

    session_id: str
    terminal_count: int
    conclusions: list[ConclusionShown]


class StateResult(Result):
    """How a graph stands."""

    session_id: str
    graph_id: str
    total_nodes: int
    active_nodes: int
    terminal_nodes: int
    total_edges: int
    max_depth: int
    root_node_ids: list[str]
    active_node_ids: list[str]
    terminal_node_ids: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGraph:
    """A graph with all that counts in it."""

    session: Session
    graph: Graph
    limits: GotLimits
    nodes: Sequence[GraphNode]
    edges: Sequence[GraphEdge]

    def node(self, field: str, key: str) -> GraphNode:
        """Return a node of this graph.

        Raises:
            RefusedError: There is none of this id in it.
        """
        for node in self.nodes:
            if node.id == key:
                return node
        raise invalid(field, f"Node not found in this graph: {key}")

    def active(self) -> list[GraphNode]:
        """Return the nodes to go on from, the shallowest and oldest first."""
        found = [node for node in self.nodes if node.is_active]
        return sorted(found, key=lambda node: (node.depth, node.position or 0))

    def room(self) -> int:
        """Return how many more nodes it may have.

        Raises:
            RefusedError: None.
        """
        left = self.limits.max_nodes - len(self.nodes)
        if left <= 0:
            reason = f"Maximum of {self.limits.max_nodes} nodes reached; prune or finalize"
            raise invalid("nodes", reason)
        return left


async def graph_for(params: GraphParams, work: Work, *, reading: bool = False) -> OpenGraph:
    """Find the graph that is meant, by its own id or as the newest of a session.

    Raises:
        RefusedError: There is none, or the session is concluded and something is to change.
    """
    if params.graph_id is not None:
        graph = await work.store.get_graph(params.graph_id)
        if graph is None:
            raise invalid("graph_id", f"Graph not found: {params.graph_id}")
        if params.session_id not in (None, graph.session_id):
            raise invalid("graph_id", "Graph does not belong to this session")
    elif params.session_id is not None:
        await known_session(work, params.session_id)
        graph = await work.store.get_latest_graph(params.session_id)
        if graph is None:
            raise session_fault("Session has no graph; call reasoning_got_init first")
    else:
        raise invalid("session_id", "Either session_id or graph_id must be provided")
    session = await known_session(work, graph.session_id)
    if not reading:
        session = await session_for(work, session.id, "got")
    return OpenGraph(
        session=session,
        graph=graph,
        limits=replace(work.limits, **graph.config),
        nodes=await work.store.get_graph_nodes(graph.id),
        edges=await work.store.get_graph_edges(graph.id),
    )


def next_in(found: OpenGraph, nodes: Sequence[GraphNode]) -> list[Move]:
    """Say what to do with a graph that has these nodes."""
    session, graph = found.session.id, found.graph.id
    active = [node for node in nodes if node.is_active]
    scored = sorted(active, key=lambda node: node.score or 0, reverse=True)
    moves: list[Move] = []
    if bare := next((node for node in active if node.score is None and not node.is_root), None):
        why = "it has no score yet"
        moves.append(
            move("reasoning_got_score", why, session_id=session, graph_id=graph, node_id=bare.id)
        )
    if scored and scored[0].depth < found.limits.max_depth and len(nodes) < found.limits.max_nodes:
        best = scored[0]
        why = f"the best active node{f' has a score of {best.score:.2f}' if best.score else ''}"
        moves.append(
            move(
                "reasoning_got_generate",
                why,
                session_id=session,
                graph_id=graph,
                node_id=best.id,
            )
        )
    if len(scored) > 1:
        pair = [node.id for node in scored[:2]]
        moves.append(
            move(
                "reasoning_got_aggregate",
                "join the two best",
                session_id=session,
                graph_id=graph,
                node_ids=pair,
            )
        )
    if any((node.score or 0) >= 0.8 for node in scored) or not moves:
        moves.append(
            move("reasoning_got_finalize", "draw conclusions", session_id=session, graph_id=graph)
        )
    return moves


async def got_init(params: InitParams, work: Work) -> Outcome[InitResult]:
    """Begin a graph of thoughts."""
    session = await session_for(work, params.session_id, "got")
    given = params.config.model_dump(exclude_none=True) if params.config else {}
    limits = replace(work.limits, **given)
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
        config=ConfigShown(**asdict(limits)),
        next=[
            move(
                "reasoning_got_generate",
                "grow the graph",
                session_id=session.id,
                graph_id=graph.id,
            )
        ],
    )
    changes = Changes(session=touched(session), graphs=(graph,), nodes=(root,))
    return Outcome(result=result, changes=changes)


async def got_prune(params: PruneParams, work: Work) -> Outcome[PruneResult]:
    """Cut the weak ends, and what becomes a weak end by that."""
    found = await graph_for(params, work)
    threshold = found.limits.prune_threshold if params.threshold is None else params.threshold
    cut = prunable(found.nodes, found.edges, threshold)
    kept = [node for node in found.nodes if node.id not in set(cut)]
    result = PruneResult(
        session_id=found.session.id,
        pruned_count=len(cut),
        remaining_count=len(kept),
        threshold_used=threshold,
        pruned_node_ids=cut,
        next=next_in(found, kept),
    )
    if not cut:
        return Outcome(result=result)
    changes = Changes(session=touched(found.session), removed_nodes=(*cut,))
    return Outcome(result=result, changes=changes)


async def got_finalize(params: FinalizeParams, work: Work) -> Outcome[FinalizeResult]:
    """Mark conclusions."""
    found = await graph_for(params, work)
    if params.terminal_node_ids:
        keys = [*dict.fromkeys(params.terminal_node_ids)]
        chosen = [found.node("terminal_node_ids", key) for key in keys]
    else:
        scored = [node for node in found.active() if node.score is not None]
        chosen = sorted(scored, key=lambda node: node.score or 0, reverse=True)[:_MOST_CONCLUSIONS]
    if not chosen:
        raise invalid(
            "terminal_node_ids",
            "There are no active nodes with a score; score some, or name the conclusions",
        )
    ended = [
        replace(node, is_terminal=True, is_active=False, node_type="terminal") for node in chosen
    ]
    result = FinalizeResult(
        session_id=found.session.id,
        terminal_count=len(ended),
        conclusions=[
            ConclusionShown(
                node_id=node.id, content=node.content, score=node.score, depth=node.depth
            )
            for node in ended
        ],
        next=[
            move(
                "reasoning_session_conclude",
                "close the session with what was found",
                session_id=found.session.id,
            )
        ],
    )
    changes = Changes(session=touched(found.session), nodes=(*ended,))
    return Outcome(result=result, changes=changes)


async def got_state(params: GraphParams, work: Work) -> Outcome[StateResult]:
    """Tell how a graph stands."""
    found = await graph_for(params, work, reading=True)
    active = found.active()
    ends = sorted(
        (node for node in found.nodes if node.is_terminal),
        key=lambda node: node.score or 0,
        reverse=True,
    )
    result = StateResult(
        session_id=found.session.id,
        graph_id=found.graph.id,
        total_nodes=len(found.nodes),
        active_nodes=len(active),
        terminal_nodes=len(ends),
        total_edges=len(found.edges),
        max_depth=max((node.depth for node in found.nodes), default=0),
        root_node_ids=[node.id for node in found.nodes if node.is_root],
        active_node_ids=[node.id for node in active],
        terminal_node_ids=[node.id for node in ends],
        next=next_in(found, found.nodes),
    )
    return Outcome(result=result)
