"""Graphs of thoughts: what the tools that grow one take and give."""

from __future__ import annotations

from pydantic import Field

from plait.reasoning.arguments import Key, Number, Params, Text, Whole, Words, ranged
from plait.reasoning.modes.got_graph import GraphParams
from plait.reasoning.results import Result, Shown


class GrowthParams(GraphParams):
    """Arguments of every tool that asks a model about a graph."""

    problem: Words | None = Field(
        default=None, description="The problem; left out, the one the graph began with."
    )


class ContinuationParam(Params):
    """A continuation that the caller thought of."""

    thought: Text
    confidence: Number = ranged(0, 1, "How well it follows.", default=0.7)
    novelty: Number = ranged(0, 1, "How new it is.", default=0.0)
    rationale: Words = ""


class GenerateParams(GrowthParams):
    """Arguments of `reasoning_got_generate`."""

    node_id: Key | None = Field(
        default=None, description="The node to continue; else the first active one."
    )
    k: Whole | None = ranged(1, 10, "How many continuations; else as the graph says.", default=None)
    continuations: list[ContinuationParam] | None = Field(
        default=None, description="Your own continuations, 1 to 10; then no model is asked."
    )


class ContinuationShown(Shown):
    """A node that was made."""

    node_id: str
    content: str
    confidence: float
    novelty: float
    rationale: str


class GenerateResult(Result):
    """The continuations."""

    session_id: str
    source_node_id: str
    continuations: list[ContinuationShown]
    count: int


class ScoresParam(Params):
    """A judgement of the caller."""

    overall_score: Number = ranged(0, 1, "How good the node is.")
    relevance: Number = ranged(0, 1, "Does it serve the problem?", default=0.5)
    validity: Number = ranged(0, 1, "Does it hold?", default=0.5)
    depth: Number = ranged(0, 1, "Does it go beyond the surface?", default=0.5)
    novelty: Number = ranged(0, 1, "Does it add something?", default=0.5)
    is_terminal_candidate: bool = False
    rationale: Words = ""


class ScoreParams(GrowthParams):
    """Arguments of `reasoning_got_score`."""

    node_id: Key = Field(description="The node to judge.")
    scores: ScoresParam | None = Field(
        default=None, description="Your own judgement; then no model is asked."
    )


class BreakdownShown(Shown):
    """A score in its parts."""

    relevance: float
    validity: float
    depth: float
    novelty: float


class ScoreResult(Result):
    """The judgement."""

    session_id: str
    node_id: str
    overall_score: float
    breakdown: BreakdownShown
    is_terminal_candidate: bool
    rationale: str


class AggregationParam(Params):
    """A thought that the caller made of several."""

    aggregated_thought: Text
    confidence: Number = ranged(0, 1, "How sure you are of it.", default=0.7)
    synthesis_approach: Words = ""
    conflicts_resolved: list[Words] = Field(default_factory=list[Words])


class AggregateParams(GrowthParams):
    """Arguments of `reasoning_got_aggregate`."""

    node_ids: list[Key] = Field(
        description="The nodes to join, at least 2.", json_schema_extra={"minItems": 2}
    )
    aggregation: AggregationParam | None = Field(
        default=None, description="Your own synthesis; then no model is asked."
    )


class AggregateResult(Result):
    """The thought that was made of several."""

    session_id: str
    aggregated_node_id: str
    content: str
    confidence: float
    source_nodes: list[str]
    synthesis_approach: str
    conflicts_resolved: list[str]


class RefinementParam(Params):
    """A thought that the caller made better."""

    refined_thought: Text
    confidence: Number = ranged(0, 1, "How sure you are of it.", default=0.7)
    improvements_made: list[Words] = Field(default_factory=list[Words])
    quality_delta: Number = ranged(-1, 1, "How much better it became.", default=0.0)


class RefineParams(GrowthParams):
    """Arguments of `reasoning_got_refine`."""

    node_id: Key = Field(description="The node to make better.")
    refinement: RefinementParam | None = Field(
        default=None, description="Your own better text; then no model is asked."
    )


class RefineResult(Result):
    """The better thought."""

    session_id: str
    original_node_id: str
    refined_node_id: str
    content: str
    confidence: float
    improvements_made: list[str]
    quality_delta: float
