"""Graph of thoughts: generate, score, aggregate and refine nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from pydantic import Field

from plait.reasoning.arguments import Adjustment, invalid_argument, session_error
from plait.reasoning.call_context import CallContext, Outcome, touched
from plait.reasoning.fields import AnyText, Id, Integer, Number, Params, Text, clamped, optional
from plait.reasoning.model_replies import (
    AggregateReply,
    ContinuationReply,
    GenerateReply,
    RefineReply,
    ScoreReply,
)
from plait.reasoning.modes.got_graph import GraphParams, OpenGraph, graph_for, next_in
from plait.reasoning.prompts import BUDGET_TOKENS, truncated
from plait.reasoning.results import Result, ResultPart, SessionResult
from plait.reasoning.values import Changes, EdgeType, GraphEdge, GraphNode

ResultT = TypeVar("ResultT", bound=Result)

_MAX_CONTINUATIONS = 10


class GrowthParams(GraphParams):
    """Arguments of every tool that asks a model about a graph."""

    problem: AnyText | None = optional("The problem; left out, the one the graph began with.")


class ContinuationParam(Params):
    """A continuation that the caller thought of."""

    thought: Text
    confidence: Number = clamped(0, 1, "How well it follows.", default=0.7)
    novelty: Number = clamped(0, 1, "How new it is.", default=0.0)
    rationale: AnyText = ""


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


async def got_generate(params: GenerateParams, call: CallContext) -> Outcome[GenerateResult]:
    """Make k continuations of a node of the graph."""
    opened = await graph_for(params, call)
    source = _source(params, opened)
    _check_depth(opened, source.depth)
    room = opened.room()
    requested = params.k or opened.limits.default_k
    count = min(requested, room)
    replies = await _continuations(params, call, opened, source, count)
    nodes = [
        opened.new_node(
            reply.thought,
            score=reply.confidence,
            depth=source.depth + 1,
            metadata={"novelty": reply.novelty, "rationale": reply.rationale},
        )
        for reply in replies
    ]
    used = replace(source, is_active=False)
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
    edges = [_edge(source, node, "generates", node.score or 0) for node in nodes]
    return _outcome(opened, result, (used, *nodes), edges)


async def _continuations(
    params: GenerateParams, call: CallContext, opened: OpenGraph, source: GraphNode, count: int
) -> list[ContinuationReply]:
    if params.continuations is not None:
        most = min(_MAX_CONTINUATIONS, opened.room())
        if not 1 <= len(params.continuations) <= most:
            reason = f"Between 1 and {most} continuations are possible here"
            raise invalid_argument("continuations", reason)
        return [ContinuationReply(**own.model_dump()) for own in params.continuations]
    reply = await call.ask(
        "got_generate",
        f'Give {count} continuations of this thought:\n"{truncated(source.content)}"'
        f"{_problem(params, opened)}\nCurrent depth: {source.depth}",
        GenerateReply,
        session=opened.session,
        parameter="continuations",
        shape='[{"thought": "…", "confidence": 0.0–1.0, "novelty": 0.0–1.0, "rationale": "…"}, …] '
        f'({count} continuations of node {source.id}: "{truncated(source.content, 100)}")',
    )
    return reply.continuations[:count]


async def got_score(params: ScoreParams, call: CallContext) -> Outcome[ScoreResult]:
    """Judge a node of the graph by relevance, validity, depth and novelty."""
    opened = await graph_for(params, call)
    node = opened.node("node_id", params.node_id)
    own = params.scores.model_dump() if params.scores else None
    previous = "" if node.score is None else f"\nPrevious score: {node.score:.2f}"
    reply = await call.ask(
        "got_score",
        f'Judge this thought:\n"{truncated(node.content)}"{_problem(params, opened)}'
        f"\nDepth: {node.depth}{previous}",
        ScoreReply,
        own=own and {**own, "breakdown": own},
        session=opened.session,
        parameter="scores",
        shape='{"overall_score": 0.0–1.0, "relevance": 0.0–1.0, "validity": 0.0–1.0, '
        '"depth": 0.0–1.0, "novelty": 0.0–1.0, "is_terminal_candidate": false, '
        f'"rationale": "…"}} (of the thought "{truncated(node.content, 100)}")',
    )
    judgement = reply.model_dump(include={"breakdown", "is_terminal_candidate", "rationale"})
    judgement["breakdown"].pop("metadata")
    scored = replace(
        node,
        score=reply.overall_score,
        metadata={**(node.metadata or {}), "judgement": judgement},
    )
    result = ScoreResult.of(
        reply,
        session_id=opened.session.id,
        node_id=node.id,
        breakdown=BreakdownInfo.of(reply.breakdown),
    )
    return _outcome(opened, result, (scored,))


async def got_aggregate(params: AggregateParams, call: CallContext) -> Outcome[AggregateResult]:
    """Make one node out of several of the graph."""
    keys = [*dict.fromkeys(params.node_ids)]
    if len(keys) < 2:
        raise invalid_argument("node_ids", "At least 2 nodes required for aggregation")
    opened = await graph_for(params, call)
    sources = [opened.node("node_ids", key) for key in keys]
    opened.room()
    deepest = max(node.depth for node in sources)
    _check_depth(opened, deepest)
    budget = BUDGET_TOKENS // len(sources)
    thoughts = "\n".join(
        f'{number}. "{truncated(node.content, budget)}"' for number, node in enumerate(sources, 1)
    )
    reply = await call.ask(
        "got_aggregate",
        f"Join these thoughts:\n{thoughts}{_problem(params, opened)}",
        AggregateReply,
        own=params.aggregation and params.aggregation.model_dump(),
        session=opened.session,
        parameter="aggregation",
        shape='{"aggregated_thought": "…", "confidence": 0.0–1.0, "synthesis_approach": "…", '
        f'"conflicts_resolved": ["…"]}} (of these thoughts:\n{thoughts})',
    )
    aggregated = opened.new_node(
        reply.aggregated_thought,
        node_type="aggregation",
        score=reply.confidence,
        depth=deepest + 1,
        metadata=reply.model_dump(include={"synthesis_approach", "conflicts_resolved"}),
    )
    used = [replace(node, is_active=False) for node in sources]
    result = AggregateResult.of(
        reply,
        session_id=opened.session.id,
        aggregated_node_id=aggregated.id,
        content=aggregated.content,
        source_nodes=keys,
    )
    edges = [_edge(node, aggregated, "aggregates", 1.0) for node in sources]
    return _outcome(opened, result, (*used, aggregated), edges)


async def got_refine(params: RefineParams, call: CallContext) -> Outcome[RefineResult]:
    """Make a node of the graph better."""
    opened = await graph_for(params, call)
    node = opened.node("node_id", params.node_id)
    opened.room()
    score = "" if node.score is None else f"\nCurrent score: {node.score:.2f}"
    reply = await call.ask(
        "got_refine",
        f'Make this thought better:\n"{truncated(node.content)}"{_problem(params, opened)}{score}',
        RefineReply,
        own=params.refinement and params.refinement.model_dump(),
        session=opened.session,
        parameter="refinement",
        shape='{"refined_thought": "…", "confidence": 0.0–1.0, "improvements_made": ["…"], '
        f'"quality_delta": -1.0–1.0}} (of the thought "{truncated(node.content, 100)}")',
    )
    refined = opened.new_node(
        reply.refined_thought,
        node_type="refinement",
        score=reply.confidence,
        depth=node.depth,
        metadata=reply.model_dump(
            include={"improvements_made", "aspects_unchanged", "quality_delta"}
        ),
    )
    used = replace(node, is_active=False)
    result = RefineResult.of(
        reply,
        session_id=opened.session.id,
        original_node_id=node.id,
        refined_node_id=refined.id,
        content=refined.content,
    )
    edges = [_edge(node, refined, "refines", reply.confidence)]
    return _outcome(opened, result, (used, refined), edges)


def _source(params: GenerateParams, opened: OpenGraph) -> GraphNode:
    if params.node_id is not None:
        return opened.node("node_id", params.node_id)
    active = opened.active()
    if not active:
        raise session_error("No active nodes in session; name a node_id to go on from")
    return active[0]


def _check_depth(opened: OpenGraph, depth: int) -> None:
    if depth >= opened.limits.max_depth:
        raise invalid_argument("depth", f"Maximum depth {opened.limits.max_depth} reached")


def _problem(params: GrowthParams, opened: OpenGraph) -> str:
    problem = params.problem or opened.graph.problem
    return f"\nProblem: {truncated(problem, BUDGET_TOKENS // 4)}" if problem else ""


def _edge(source: GraphNode, target: GraphNode, kind: EdgeType, weight: float) -> GraphEdge:
    return GraphEdge(
        graph_id=target.graph_id,
        session_id=target.session_id,
        from_node=source.id,
        to_node=target.id,
        edge_type=kind,
        weight=weight,
    )


def _outcome(
    opened: OpenGraph, result: ResultT, nodes: Sequence[GraphNode], edges: Sequence[GraphEdge] = ()
) -> Outcome[ResultT]:
    """Return the changed and new nodes as changes, and suggest calls for the graph with them."""
    new = {node.id: node for node in nodes}
    kept = [new.pop(node.id, node) for node in opened.nodes]
    moves = next_in(opened, [*kept, *new.values()])
    changes = Changes(session=touched(opened.session), nodes=(*nodes,), edges=(*edges,))
    return Outcome(result.model_copy(update={"next": moves}), changes)
