"""Graphs of thoughts: continue, judge, join and refine nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from plait.reasoning.arguments import Adjustment, invalid, session_fault, supply
from plait.reasoning.call_context import Outcome, Work, touched
from plait.reasoning.context import BUDGET_TOKENS, shortened
from plait.reasoning.modes.got_graph import OpenGraph, graph_for, next_in
from plait.reasoning.modes.got_shapes import (
    AggregateParams,
    AggregateResult,
    BreakdownShown,
    ContinuationShown,
    GenerateParams,
    GenerateResult,
    GrowthParams,
    RefineParams,
    RefineResult,
    ScoreParams,
    ScoreResult,
)
from plait.reasoning.replies import (
    AggregateReply,
    BreakdownReply,
    ContinuationReply,
    GenerateReply,
    RefineReply,
    ScoreReply,
)
from plait.reasoning.values import Changes, EdgeType, GraphEdge, GraphNode


async def got_generate(params: GenerateParams, work: Work) -> Outcome[GenerateResult]:
    """Continue a node in several ways."""
    found = await graph_for(params, work)
    source = _source(params, found)
    _check_depth(found, source.depth)
    room = found.room()
    asked = params.k or found.limits.default_k
    wanted = min(asked, room)
    if params.continuations is not None:
        if not 1 <= len(params.continuations) <= min(10, room):
            reason = f"Between 1 and {min(10, room)} continuations are possible here"
            raise invalid("continuations", reason)
        replies = [ContinuationReply(**one.model_dump()) for one in params.continuations]
    elif work.hosted:
        shape = (
            '[{"thought": "…", "confidence": 0.0–1.0, "novelty": 0.0–1.0, "rationale": "…"}, …] '
            f'({wanted} continuations of node {source.id}: "{shortened(source.content, 100)}")'
        )
        raise supply("continuations", shape)
    else:
        user = (
            f'Give {wanted} continuations of this thought:\n"{shortened(source.content)}"'
            f"{_problem(params, found)}\nCurrent depth: {source.depth}"
        )
        reply = await work.ask("got_generate", user, GenerateReply, session=found.session)
        replies = reply.continuations[:wanted]
    nodes = [
        GraphNode(
            graph_id=found.graph.id,
            session_id=found.session.id,
            content=one.thought,
            score=one.confidence,
            depth=source.depth + 1,
            metadata={"novelty": one.novelty, "rationale": one.rationale},
        )
        for one in replies
    ]
    edges = [
        _edge(source, node, "generates", one.confidence)
        for node, one in zip(nodes, replies, strict=True)
    ]
    used = replace(source, is_active=False)
    result = GenerateResult(
        session_id=found.session.id,
        source_node_id=source.id,
        continuations=[
            ContinuationShown(
                node_id=node.id,
                content=one.thought,
                confidence=one.confidence,
                novelty=one.novelty,
                rationale=one.rationale,
            )
            for node, one in zip(nodes, replies, strict=True)
        ],
        count=len(nodes),
        adjusted={"k": Adjustment(given=asked, used=wanted)} if wanted < asked else None,
        next=next_in(found, _after(found, (used, *nodes))),
    )
    changes = Changes(session=touched(found.session), nodes=(used, *nodes), edges=(*edges,))
    return Outcome(result=result, changes=changes)


async def got_score(params: ScoreParams, work: Work) -> Outcome[ScoreResult]:
    """Judge a node."""
    found = await graph_for(params, work)
    node = found.node("node_id", params.node_id)
    if params.scores is not None:
        given = params.scores
        parts = given.model_dump(include={"relevance", "validity", "depth", "novelty"})
        reply = ScoreReply(
            overall_score=given.overall_score,
            breakdown=BreakdownReply(**parts),
            is_terminal_candidate=given.is_terminal_candidate,
            rationale=given.rationale,
        )
    elif work.hosted:
        shape = (
            '{"overall_score": 0.0–1.0, "relevance": 0.0–1.0, "validity": 0.0–1.0, '
            '"depth": 0.0–1.0, "novelty": 0.0–1.0, "is_terminal_candidate": false, '
            f'"rationale": "…"}} (of the thought "{shortened(node.content, 100)}")'
        )
        raise supply("scores", shape)
    else:
        before = "" if node.score is None else f"\nPrevious score: {node.score:.2f}"
        user = (
            f'Judge this thought:\n"{shortened(node.content)}"{_problem(params, found)}'
            f"\nDepth: {node.depth}{before}"
        )
        reply = await work.ask("got_score", user, ScoreReply, session=found.session)
    scored = replace(node, score=reply.overall_score)
    parts = reply.breakdown
    result = ScoreResult(
        session_id=found.session.id,
        node_id=node.id,
        overall_score=reply.overall_score,
        breakdown=BreakdownShown(
            relevance=parts.relevance,
            validity=parts.validity,
            depth=parts.depth,
            novelty=parts.novelty,
        ),
        is_terminal_candidate=reply.is_terminal_candidate,
        rationale=reply.rationale,
        next=next_in(found, _after(found, (scored,))),
    )
    changes = Changes(session=touched(found.session), nodes=(scored,))
    return Outcome(result=result, changes=changes)


async def got_aggregate(params: AggregateParams, work: Work) -> Outcome[AggregateResult]:
    """Make one node out of several."""
    keys = [*dict.fromkeys(params.node_ids)]
    if len(keys) < 2:
        raise invalid("node_ids", "At least 2 nodes required for aggregation")
    found = await graph_for(params, work)
    sources = [found.node("node_ids", key) for key in keys]
    found.room()
    deepest = max(node.depth for node in sources)
    _check_depth(found, deepest)
    budget = BUDGET_TOKENS // len(sources)
    listed = "\n".join(
        f'{number}. "{shortened(node.content, budget)}"' for number, node in enumerate(sources, 1)
    )
    if params.aggregation is not None:
        reply = AggregateReply(**params.aggregation.model_dump())
    elif work.hosted:
        shape = (
            '{"aggregated_thought": "…", "confidence": 0.0–1.0, "synthesis_approach": "…", '
            f'"conflicts_resolved": ["…"]}} (of these thoughts:\n{listed})'
        )
        raise supply("aggregation", shape)
    else:
        user = f"Join these thoughts:\n{listed}{_problem(params, found)}"
        reply = await work.ask("got_aggregate", user, AggregateReply, session=found.session)
    joined = GraphNode(
        graph_id=found.graph.id,
        session_id=found.session.id,
        content=reply.aggregated_thought,
        node_type="aggregation",
        score=reply.confidence,
        depth=deepest + 1,
    )
    used = [replace(node, is_active=False) for node in sources]
    result = AggregateResult(
        session_id=found.session.id,
        aggregated_node_id=joined.id,
        content=joined.content,
        confidence=reply.confidence,
        source_nodes=keys,
        synthesis_approach=reply.synthesis_approach,
        conflicts_resolved=reply.conflicts_resolved,
        next=next_in(found, _after(found, (*used, joined))),
    )
    changes = Changes(
        session=touched(found.session),
        nodes=(*used, joined),
        edges=tuple(_edge(node, joined, "aggregates", 1.0) for node in sources),
    )
    return Outcome(result=result, changes=changes)


async def got_refine(params: RefineParams, work: Work) -> Outcome[RefineResult]:
    """Make a node better."""
    found = await graph_for(params, work)
    node = found.node("node_id", params.node_id)
    found.room()
    if params.refinement is not None:
        reply = RefineReply(**params.refinement.model_dump())
    elif work.hosted:
        shape = (
            '{"refined_thought": "…", "confidence": 0.0–1.0, "improvements_made": ["…"], '
            f'"quality_delta": -1.0–1.0}} (of the thought "{shortened(node.content, 100)}")'
        )
        raise supply("refinement", shape)
    else:
        score = "" if node.score is None else f"\nCurrent score: {node.score:.2f}"
        user = (
            f'Make this thought better:\n"{shortened(node.content)}"'
            f"{_problem(params, found)}{score}"
        )
        reply = await work.ask("got_refine", user, RefineReply, session=found.session)
    refined = GraphNode(
        graph_id=found.graph.id,
        session_id=found.session.id,
        content=reply.refined_thought,
        node_type="refinement",
        score=reply.confidence,
        depth=node.depth,
    )
    used = replace(node, is_active=False)
    result = RefineResult(
        session_id=found.session.id,
        original_node_id=node.id,
        refined_node_id=refined.id,
        content=refined.content,
        confidence=reply.confidence,
        improvements_made=reply.improvements_made,
        quality_delta=reply.quality_delta,
        next=next_in(found, _after(found, (used, refined))),
    )
    changes = Changes(
        session=touched(found.session),
        nodes=(used, refined),
        edges=(_edge(node, refined, "refines", reply.confidence),),
    )
    return Outcome(result=result, changes=changes)


def _source(params: GenerateParams, found: OpenGraph) -> GraphNode:
    if params.node_id is not None:
        return found.node("node_id", params.node_id)
    active = found.active()
    if not active:
        raise session_fault("No active nodes in session; name a node_id to go on from")
    return active[0]


def _check_depth(found: OpenGraph, depth: int) -> None:
    if depth >= found.limits.max_depth:
        raise invalid("depth", f"Maximum depth {found.limits.max_depth} reached")


def _problem(params: GrowthParams, found: OpenGraph) -> str:
    problem = params.problem or found.graph.problem
    return f"\nProblem: {shortened(problem, BUDGET_TOKENS // 4)}" if problem else ""


def _edge(source: GraphNode, target: GraphNode, kind: EdgeType, weight: float) -> GraphEdge:
    return GraphEdge(
        graph_id=target.graph_id,
        session_id=target.session_id,
        from_node=source.id,
        to_node=target.id,
        edge_type=kind,
        weight=weight,
    )


def _after(found: OpenGraph, changed: Sequence[GraphNode]) -> list[GraphNode]:
    """Return the nodes of a graph with some of them changed or added."""
    new = {node.id: node for node in changed}
    kept = [new.pop(node.id, node) for node in found.nodes]
    return [*kept, *new.values()]
