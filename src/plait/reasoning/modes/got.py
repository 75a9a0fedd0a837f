"""Graph of thoughts: begin, grow, judge, join, refine, prune, conclude and read a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import Field

from plait._support.exception_groups import one_line
from plait.errors import GraphNotFoundError, NodeNotFoundError
from plait.reasoning.arguments import invalid_argument, session_error, unknown_id
from plait.reasoning.backends.settings import GotLimits
from plait.reasoning.call_context import CallContext, Outcome, touched
from plait.reasoning.fields import (
    Adjustment,
    AnyText,
    Id,
    Integer,
    Number,
    Params,
    Text,
    clamped,
    optional,
)
from plait.reasoning.graphs import prunable
from plait.reasoning.prompts import BUDGET_TOKENS, truncated
from plait.reasoning.results import Move, Result, ResultPart, SessionResult, move, unless_none
from plait.reasoning.values import Changes, EdgeType, Graph, GraphEdge, GraphNode, Session

ResultT = TypeVar("ResultT", bound=Result)

MIN_JOIN_SCORE = 0.5
"""A weaker node is not advised for joining: it would weaken what it is joined with."""

MAX_CONCLUSIONS = 3
"""More than a few conclusions are none."""

MAX_CONTINUATIONS = 10
"""The most that `k` may ask of a model."""

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
    # A node without a score is neither better nor worse than one of the middle.
    ranked = sorted(active, key=lambda one: -(MIN_JOIN_SCORE if one.score is None else one.score))
    growing = [node for node in ranked if node.depth < limits.max_depth]
    has_room = len(nodes) < limits.max_nodes
    moves: list[Move] = []
    joinable = [node for node in growing if (node.score or 0) >= MIN_JOIN_SCORE]
    bare = next((node for node in active if node.score is None and not node.is_root), None)
    if bare is not None:
        moves.append(move("got_score", "it has no score yet", **ids, node_id=bare.id))
    if growing and has_room:
        best = growing[0]
        why = "grow the graph"
        if best.score is not None and bare is None:
            why = f"the best active node has a score of {best.score:.2f}"
        moves.append(move("got_generate", why, **ids, node_id=best.id))
    if len(joinable) > 1 and has_room:
        pair = [node.id for node in joinable[:2]]
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


class StateResult(SessionResult):
    """The state of a graph."""

    graph_id: str
    total_nodes: int
    active_nodes: int
    terminal_nodes: int
    total_edges: int
    max_depth: int
    root_node_ids: list[str]
    active_node_ids: list[str]
    terminal_node_ids: list[str]
    problem: str | None = unless_none()
    nodes: list[NodeInfo] | None = unless_none()


class ContinuationParam(Params):
    """A continuation that the caller thought of."""

    thought: Text
    confidence: Number = clamped(0, 1, "How well it follows.", default=0.7)
    novelty: Number = clamped(0, 1, "How new it is.", default=0.0)
    rationale: AnyText = ""


class GenerateReply(Params):
    """Several continuations."""

    continuations: list[ContinuationParam] = Field(min_length=1)


class GenerateParams(GrowthParams):
    """Arguments of `reasoning_got_generate`."""

    node_id: Id | None = optional("The node to continue; else the first active one.")
    k: Integer | None = clamped(
        1, 10, "How many continuations; else as the graph says.", default=None
    )
    continuations: list[ContinuationParam] | None = optional(
        "Your own continuations, 1 to 10; then no model is asked."
    )


class ContinuationInfo(ResultPart):
    """A node that was made."""

    node_id: str
    content: str
    confidence: float
    novelty: float
    rationale: str


class GenerateResult(SessionResult):
    """The continuations."""

    source_node_id: str
    continuations: list[ContinuationInfo]
    count: int


class ScoresParam(Params):
    """A judgement of the caller."""

    overall_score: Number = clamped(0, 1, "How good the node is.")
    relevance: Number = clamped(0, 1, "Does it serve the problem?", default=0.5)
    validity: Number = clamped(0, 1, "Does it hold?", default=0.5)
    depth: Number = clamped(0, 1, "Does it go beyond the surface?", default=0.5)
    novelty: Number = clamped(0, 1, "Does it add something?", default=0.5)
    is_terminal_candidate: bool = False
    rationale: AnyText = ""


class BreakdownReply(Params):
    """A score of a model in its parts."""

    relevance: Number = clamped(0, 1, "Does it serve the problem?", default=0.5)
    validity: Number = clamped(0, 1, "Does it hold?", default=0.5)
    depth: Number = clamped(0, 1, "Does it go beyond the surface?", default=0.5)
    novelty: Number = clamped(0, 1, "Does it add something?", default=0.5)


class ScoreReply(Params):
    """A judgement of a model."""

    overall_score: Number = clamped(0, 1, "How good the node is.")
    breakdown: BreakdownReply = BreakdownReply()
    is_terminal_candidate: bool = False
    rationale: AnyText = ""


class ScoreParams(GrowthParams):
    """Arguments of `reasoning_got_score`."""

    node_id: Id = Field(description="The node to judge.")
    scores: ScoresParam | None = optional("Your own judgement; then no model is asked.")


class BreakdownInfo(ResultPart):
    """A score in its parts."""

    relevance: float
    validity: float
    depth: float
    novelty: float


class ScoreResult(SessionResult):
    """The judgement."""

    node_id: str
    overall_score: float
    breakdown: BreakdownInfo
    is_terminal_candidate: bool
    rationale: str


class AggregationParam(Params):
    """A thought that the caller made of several."""

    aggregated_thought: Text
    confidence: Number = clamped(0, 1, "How sure you are of it.", default=0.7)
    synthesis_approach: AnyText = ""
    conflicts_resolved: list[AnyText] = Field(default_factory=list[AnyText])


class AggregateParams(GrowthParams):
    """Arguments of `reasoning_got_aggregate`."""

    node_ids: list[Id] = Field(
        description="The nodes to join, at least 2.", json_schema_extra={"minItems": 2}
    )
    aggregation: AggregationParam | None = optional("Your own synthesis; then no model is asked.")


class AggregateResult(SessionResult):
    """The thought that was made of several."""

    aggregated_node_id: str
    content: str
    confidence: float
    source_nodes: list[str]
    synthesis_approach: str
    conflicts_resolved: list[str]


class RefinementParam(Params):
    """A thought that the caller made better."""

    refined_thought: Text
    confidence: Number = clamped(0, 1, "How sure you are of it.", default=0.7)
    improvements_made: list[AnyText] = Field(default_factory=list[AnyText])
    quality_delta: Number = clamped(-1, 1, "How much better it became.", default=0.0)


class RefineParams(GrowthParams):
    """Arguments of `reasoning_got_refine`."""

    node_id: Id = Field(description="The node to make better.")
    refinement: RefinementParam | None = optional("Your own better text; then no model is asked.")


class RefineResult(SessionResult):
    """The better thought."""

    original_node_id: str
    refined_node_id: str
    content: str
    confidence: float
    improvements_made: list[str]
    quality_delta: float


def given_confidence(
    reply: ContinuationParam | AggregationParam | RefinementParam,
) -> float | None:
    """Return the confidence of a reply, unless it is the default of the contract."""
    return reply.confidence if "confidence" in reply.model_fields_set else None


async def got_init(params: InitParams, call: CallContext) -> Outcome[InitResult]:
    """Begin a graph of thoughts, for problems with many parts that depend on each other.

    A session may hold several.
    """
    session = await call.new_or_open_session(params.session_id, "got")
    config = params.config.model_dump(exclude_none=True) if params.config else {}
    limits = call.limits.model_copy(update=config)
    graph = Graph(session_id=session.id, problem=params.problem or None, config=limits.model_dump())
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


async def got_generate(params: GenerateParams, call: CallContext) -> Outcome[GenerateResult]:
    """Make k continuations of a node of the graph."""
    opened = await graph_for(params, call)
    if params.node_id is not None:
        source = opened.node("node_id", params.node_id)
    elif active := opened.active():
        source = active[0]
    else:
        raise session_error("No active nodes in session; name a node_id to go on from")
    opened.check_depth(source.depth)
    room = opened.room()
    requested = params.k or opened.limits.default_k
    count = min(requested, room)
    replies: Sequence[ContinuationParam]
    if params.continuations is not None:
        replies = params.continuations
        most = min(MAX_CONTINUATIONS, room)
        if not 1 <= len(replies) <= most:
            reason = f"Between 1 and {most} continuations are possible here"
            raise invalid_argument("continuations", reason)
    else:
        reply = await call.ask(
            "got_generate",
            f'Give {count} continuations of this thought:\n"{truncated(source.content)}"'
            f"{opened.problem_text(params)}\nCurrent depth: {source.depth}",
            GenerateReply,
            session=opened.session,
            parameter="continuations",
            shape='[{"thought": "…", "confidence": 0.0–1.0, "novelty": 0.0–1.0, '
            f'"rationale": "…"}}, …] ({count} continuations of node {source.id}: '
            f'"{truncated(source.content, 100)}")',
        )
        replies = reply.continuations[:count]
    nodes = [
        opened.new_node(
            reply.thought,
            score=given_confidence(reply),
            depth=source.depth + 1,
            metadata={"novelty": reply.novelty, "rationale": reply.rationale},
        )
        for reply in replies
    ]
    result = GenerateResult(
        session_id=opened.session.id,
        source_node_id=source.id,
        continuations=[
            ContinuationInfo.of(reply, node_id=node.id, content=reply.thought)
            for node, reply in zip(nodes, replies, strict=True)
        ],
        count=len(nodes),
        adjusted={"k": Adjustment(given=requested, used=count)} if count < requested else None,
    )
    arrows = [(source, node, reply.confidence) for node, reply in zip(nodes, replies, strict=True)]
    return opened.outcome(result, (replace(source, is_active=False), *nodes), arrows)


async def got_score(params: ScoreParams, call: CallContext) -> Outcome[ScoreResult]:
    """Judge a node of the graph by relevance, validity, depth and novelty."""
    opened = await graph_for(params, call)
    node = opened.node("node_id", params.node_id)
    previous = "" if node.score is None else f"\nPrevious score: {node.score:.2f}"
    reply = params.scores or await call.ask(
        "got_score",
        f'Judge this thought:\n"{truncated(node.content)}"{opened.problem_text(params)}'
        f"\nDepth: {node.depth}{previous}",
        ScoreReply,
        session=opened.session,
        parameter="scores",
        shape='{"overall_score": 0.0–1.0, "relevance": 0.0–1.0, "validity": 0.0–1.0, '
        '"depth": 0.0–1.0, "novelty": 0.0–1.0, "is_terminal_candidate": false, '
        f'"rationale": "…"}} (of the thought "{truncated(node.content, 100)}")',
    )
    breakdown = BreakdownInfo.of(reply.breakdown if isinstance(reply, ScoreReply) else reply)
    judgement = {
        "breakdown": breakdown.model_dump(),
        "is_terminal_candidate": reply.is_terminal_candidate,
        "rationale": reply.rationale,
    }
    metadata = {**(node.metadata or {}), "judgement": judgement}
    scored = replace(node, score=reply.overall_score, metadata=metadata)
    result = ScoreResult.of(
        reply, session_id=opened.session.id, node_id=node.id, breakdown=breakdown
    )
    return opened.outcome(result, (scored,))


async def got_aggregate(params: AggregateParams, call: CallContext) -> Outcome[AggregateResult]:
    """Make one node out of several of the graph."""
    keys = [*dict.fromkeys(params.node_ids)]
    if len(keys) < 2:
        raise invalid_argument("node_ids", "At least 2 nodes required for aggregation")
    opened = await graph_for(params, call)
    sources = [opened.node("node_ids", key) for key in keys]
    opened.room()
    deepest = max(node.depth for node in sources)
    opened.check_depth(deepest)
    budget = BUDGET_TOKENS // len(sources)
    thoughts = "\n".join(
        f'{number}. "{truncated(node.content, budget)}"' for number, node in enumerate(sources, 1)
    )
    reply = params.aggregation or await call.ask(
        "got_aggregate",
        f"Join these thoughts:\n{thoughts}{opened.problem_text(params)}",
        AggregationParam,
        session=opened.session,
        parameter="aggregation",
        shape='{"aggregated_thought": "…", "confidence": 0.0–1.0, "synthesis_approach": "…", '
        f'"conflicts_resolved": ["…"]}} (of these thoughts:\n{thoughts})',
    )
    aggregated = opened.new_node(
        reply.aggregated_thought,
        node_type="aggregation",
        score=given_confidence(reply),
        depth=deepest + 1,
        metadata=reply.model_dump(include={"synthesis_approach", "conflicts_resolved"}),
    )
    result = AggregateResult.of(
        reply,
        session_id=opened.session.id,
        aggregated_node_id=aggregated.id,
        content=aggregated.content,
        source_nodes=keys,
    )
    used = [replace(node, is_active=False) for node in sources]
    arrows = [(node, aggregated, 1.0) for node in sources]
    return opened.outcome(result, (*used, aggregated), arrows, "aggregates")


async def got_refine(params: RefineParams, call: CallContext) -> Outcome[RefineResult]:
    """Make a node of the graph better."""
    opened = await graph_for(params, call)
    node = opened.node("node_id", params.node_id)
    opened.room()
    score = "" if node.score is None else f"\nCurrent score: {node.score:.2f}"
    reply = params.refinement or await call.ask(
        "got_refine",
        f'Make this thought better:\n"{truncated(node.content)}"'
        f"{opened.problem_text(params)}{score}",
        RefinementParam,
        session=opened.session,
        parameter="refinement",
        shape='{"refined_thought": "…", "confidence": 0.0–1.0, "improvements_made": ["…"], '
        f'"quality_delta": -1.0–1.0}} (of the thought "{truncated(node.content, 100)}")',
    )
    refined = opened.new_node(
        reply.refined_thought,
        node_type="refinement",
        score=given_confidence(reply),
        depth=node.depth,
        metadata=reply.model_dump(include={"improvements_made", "quality_delta"}),
    )
    result = RefineResult.of(
        reply,
        session_id=opened.session.id,
        original_node_id=node.id,
        refined_node_id=refined.id,
        content=refined.content,
    )
    used = replace(node, is_active=False)
    return opened.outcome(result, (used, refined), [(node, refined, reply.confidence)], "refines")


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
    changes = Changes(session=touched(opened.session), removed_nodes=(*cut,)) if cut else None
    return Outcome(result, changes)


async def got_finalize(params: FinalizeParams, call: CallContext) -> Outcome[FinalizeResult]:
    """Mark nodes of the graph as its conclusions."""
    opened = await graph_for(params, call)
    if params.terminal_node_ids:
        keys = [*dict.fromkeys(params.terminal_node_ids)]
        chosen = [opened.node("terminal_node_ids", key) for key in keys]
    else:
        active = [node for node in opened.active() if not node.is_root]
        scored = [node for node in active if node.score is not None]
        # Without any score, the first ones: none of them is better than another.
        chosen = sorted(scored or active, key=lambda node: -(node.score or 0))[:MAX_CONCLUSIONS]
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
    ends = [node for node in opened.nodes if node.is_terminal]
    ends.sort(key=lambda node: node.score or 0, reverse=True)
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
