"""The graph that a call works on: its nodes and edges, what may be added, and the next moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from plait._support.exception_groups import one_line
from plait.errors import GraphNotFoundError, NodeNotFoundError
from plait.reasoning.arguments import invalid_argument, session_error, unknown_id
from plait.reasoning.backends.settings import GotLimits
from plait.reasoning.call_context import CallContext, Outcome, touched
from plait.reasoning.fields import AnyText, Id, Params, optional
from plait.reasoning.prompts import BUDGET_TOKENS, truncated
from plait.reasoning.results import Move, Result, ResultPart, move
from plait.reasoning.values import Changes, EdgeType, Graph, GraphEdge, GraphNode, Session

ResultT = TypeVar("ResultT", bound=Result)

MAX_NODES_SHOWN = 50
"""A graph may have 1000 nodes; the best ones come first."""

MAX_NODE_CHARS = 200
"""The texts of nodes are for recognising them; `got_state` is called often."""


class GraphParams(Params):
    """Arguments of every tool that works on a graph."""

    session_id: Id | None = optional("The session; its newest graph is meant.")
    graph_id: Id | None = optional("The graph, if the session has several.")


class GrowthParams(GraphParams):
    """Arguments of every tool that asks a model about a graph."""

    problem: AnyText | None = optional("The problem; left out, the one the graph began with.")


class NodeInfo(ResultPart):
    """A node, with the beginning of its text."""

    node_id: str
    content: str
    node_type: str
    score: float | None
    depth: int
    is_active: bool


def node_infos(
    nodes: Sequence[GraphNode], *, count: int = MAX_NODES_SHOWN, chars: int = MAX_NODE_CHARS
) -> list[NodeInfo]:
    """Return nodes with the beginnings of their texts: conclusions, active ones, then others."""
    order = sorted(
        nodes, key=lambda one: (not one.is_terminal, not one.is_active, -(one.score or 0))
    )
    return [
        NodeInfo.of(node, node_id=node.id, content=one_line(node.content, chars))
        for node in order[:count]
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
        active = [node for node in self.nodes if node.is_active]
        return sorted(active, key=lambda node: (node.depth, node.position or 0))

    def room(self) -> int:
        """Return how many more nodes the graph may have, which must not be full."""
        left = self.limits.max_nodes - len(self.nodes)
        if left <= 0:
            reason = f"Maximum of {self.limits.max_nodes} nodes reached; prune or finalize"
            raise invalid_argument("nodes", reason)
        return left

    def check_depth(self, depth: int) -> None:
        """Check that nodes may be added below this depth."""
        if depth >= self.limits.max_depth:
            raise invalid_argument("depth", f"Maximum depth {self.limits.max_depth} reached")

    def problem_text(self, params: GrowthParams) -> str:
        """Return the line of a prompt that names the problem."""
        problem = params.problem or self.graph.problem
        return f"\nProblem: {truncated(problem, BUDGET_TOKENS // 4)}" if problem else ""

    def outcome(
        self,
        result: ResultT,
        nodes: Sequence[GraphNode],
        arrows: Sequence[tuple[GraphNode, GraphNode, float]] = (),
        edge_type: EdgeType = "generates",
    ) -> Outcome[ResultT]:
        """Return changed and new nodes with their arrows, and suggest calls for the new graph."""
        new = {node.id: node for node in nodes}
        kept = [new.pop(node.id, node) for node in self.nodes]
        moves = next_in(self, [*kept, *new.values()])
        edges = [
            GraphEdge(
                graph_id=self.graph.id,
                session_id=self.session.id,
                from_node=source.id,
                to_node=target.id,
                edge_type=edge_type,
                weight=weight,
            )
            for source, target, weight in arrows
        ]
        changes = Changes(session=touched(self.session), nodes=(*nodes,), edges=(*edges,))
        return Outcome(result.model_copy(update={"next": moves}), changes)


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
    find_session = call.existing_session if reading else call.open_session
    return OpenGraph(
        session=await find_session(graph.session_id),
        graph=graph,
        limits=call.limits.model_copy(update=graph.config),
        nodes=await call.store.get_graph_nodes(graph.id),
        edges=await call.store.get_graph_edges(graph.id),
    )


def next_in(opened: OpenGraph, nodes: Sequence[GraphNode]) -> list[Move]:
    """Suggest the next calls for a graph that has these nodes; none of them would be refused."""
    session, limits = opened.session, opened.limits
    if session.status == "concluded":
        return [move("session_reopen", "to go on with it", session.id)]
    ids = {"session_id": session.id, "graph_id": opened.graph.id}
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
    if moves:
        return moves
    # Nothing is active, or nothing can be added: an inactive node may still be continued.
    open_ends = [node for node in nodes if node.depth < limits.max_depth and not node.is_terminal]
    if any(node.is_terminal for node in nodes) or not open_ends or not has_room:
        return [move("session_conclude", "close the session with what was found", session.id)]
    best = max(open_ends, key=lambda node: node.score or 0)
    why = "no node is active; this is the best to go on from"
    return [move("got_generate", why, **ids, node_id=best.id)]
