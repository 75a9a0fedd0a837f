"""The replies of models as pydantic models; a caller without a model supplies the same fields."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError


def _clean_text(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "the text must not be empty")
    return text.replace("\0", "")


FilledText = Annotated[str, AfterValidator(_clean_text)]
"""A string that is not blank."""

Finite = Annotated[float, Field(allow_inf_nan=False)]

Fraction = Annotated[Finite, AfterValidator(lambda value: min(max(value, 0.0), 1.0))]
"""A number clamped to 0–1."""

SignedFraction = Annotated[Finite, AfterValidator(lambda value: min(max(value, -1.0), 1.0))]


class Reply(BaseModel):
    """A reply of a model; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    metadata: dict[str, Any] | None = None


class LinearReply(Reply):
    """The next step."""

    thought: FilledText
    confidence: Fraction = 0.8


class BranchReply(LinearReply):
    """One way to go on."""

    rationale: str = ""


class TreeReply(Reply):
    """Several ways to go on."""

    branches: list[BranchReply] = Field(min_length=1)
    recommended_branch: int = 0


class PerspectiveReply(Reply):
    """One point of view."""

    thought: FilledText
    novelty: Fraction
    viability: Fraction
    assumptions_challenged: list[str] = Field(default_factory=list[str])


class DivergentReply(Reply):
    """Several points of view, and what they show together."""

    perspectives: list[PerspectiveReply] = Field(min_length=1)
    synthesis: FilledText


class ReflectionReply(Reply):
    """What is good and bad about a piece of reasoning."""

    analysis: FilledText
    strengths: list[str] = Field(default_factory=list[str])
    weaknesses: list[str] = Field(default_factory=list[str])
    recommendations: list[str] = Field(default_factory=list[str])
    confidence: Fraction = 0.8
    quality_score: Fraction | None = None
    improved_thought: str | None = None

    @property
    def quality(self) -> float:
        """Return how good the reasoning was."""
        return self.confidence if self.quality_score is None else self.quality_score

    @property
    def improvement(self) -> str | None:
        """Return the better text, if there is one."""
        text = (self.improved_thought or "").replace("\0", "").strip()
        return text or None


class BacktrackReply(LinearReply):
    """The first step of another way."""

    context_restored: bool = True
    branch_from: str | None = None
    new_direction: str | None = None


class RouterReply(Reply):
    """Which mode fits."""

    recommended_mode: FilledText
    confidence: Fraction = 0.8
    rationale: str = ""
    complexity: Fraction = 0.5


class ContinuationReply(Reply):
    """What follows from a node."""

    thought: FilledText
    confidence: Fraction = 0.7
    novelty: Fraction = 0.0
    rationale: str = ""


class GenerateReply(Reply):
    """Several things that follow from a node."""

    continuations: list[ContinuationReply] = Field(min_length=1)


class BreakdownReply(Reply):
    """A score in its parts."""

    relevance: Fraction = 0.5
    validity: Fraction = 0.5
    depth: Fraction = 0.5
    novelty: Fraction = 0.5


class ScoreReply(Reply):
    """How good a node is."""

    overall_score: Fraction
    breakdown: BreakdownReply = Field(default_factory=BreakdownReply)
    is_terminal_candidate: bool = False
    rationale: str = ""


class AggregateReply(Reply):
    """One thought out of several."""

    aggregated_thought: FilledText
    confidence: Fraction = 0.7
    sources_used: list[Any] = Field(default_factory=list[Any])
    synthesis_approach: str = ""
    conflicts_resolved: list[str] = Field(default_factory=list[str])


class RefineReply(Reply):
    """A better thought."""

    refined_thought: FilledText
    confidence: Fraction = 0.7
    improvements_made: list[str] = Field(default_factory=list[str])
    aspects_unchanged: list[str] = Field(default_factory=list[str])
    quality_delta: SignedFraction = 0.0
