"""Which mode fits a task: what can be told from its words alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MODES: Final = ("linear", "tree", "divergent", "reflection", "got")
"""The modes that can be recommended."""

_SHORT_BYTES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A mode, and how sure it is."""

    mode: str
    confidence: float
    rationale: str
    complexity: float
    alternatives: tuple[tuple[str, float, str], ...] = ()


_SIGNS: Final = (
    (
        ("evaluate", "assess", "review quality", "critique"),
        Route(
            mode="reflection",
            confidence=0.85,
            rationale="The task is to judge something that exists.",
            complexity=0.5,
            alternatives=(("linear", 0.6, "A judgement can be worked out step by step."),),
        ),
    ),
    (
        ("creative", "brainstorm", "novel", "unconventional"),
        Route(
            mode="divergent",
            confidence=0.85,
            rationale="The task asks for new ideas.",
            complexity=0.6,
            alternatives=(("tree", 0.5, "Ideas can be explored as branches."),),
        ),
    ),
    (
        ("options", "alternatives", "compare", "trade-offs"),
        Route(
            mode="tree",
            confidence=0.8,
            rationale="The task weighs options against each other.",
            complexity=0.5,
            alternatives=(("divergent", 0.4, "There may be options nobody has named."),),
        ),
    ),
    (
        ("complex system", "interconnected", "multi-step", "graph"),
        Route(
            mode="got",
            confidence=0.75,
            rationale="The task has many parts that depend on each other.",
            complexity=0.8,
            alternatives=(("tree", 0.6, "The parts may be taken one by one."),),
        ),
    ),
)


def route_by_words(content: str) -> Route | None:
    """Return the mode that the length or a word of the task gives away, if one does."""
    if len(content.encode()) < _SHORT_BYTES:
        return Route(
            mode="linear",
            confidence=0.9,
            rationale="The task is short: one step after the other suffices.",
            complexity=0.2,
        )
    lowered = content.lower()
    for words, route in _SIGNS:
        if any(word in lowered for word in words):
            return route
    return None


def route_by_complexity(complexity: float, rationale: str) -> Route:
    """Return the mode for a task of which only the complexity is known."""
    mode = "linear" if complexity < 0.3 else "got" if complexity > 0.7 else "tree"
    return Route(
        mode=mode,
        confidence=0.6,
        rationale=rationale,
        complexity=complexity,
        alternatives=alternatives_for(mode, complexity),
    )


def estimated_complexity(content: str) -> float:
    """Guess the complexity of a task from its length, its questions and its parts."""
    words = len(content.split())
    questions = content.count("?")
    parts = sum(line.lstrip()[:1] in {"-", "*"} for line in content.splitlines())
    return min(1.0, words / 200 + questions * 0.1 + parts * 0.05)


def alternatives_for(mode: str, complexity: float) -> tuple[tuple[str, float, str], ...]:
    """Return the other modes that may do, for a task of some complexity."""
    if complexity < 0.3:
        found = (("linear", 0.7, "The task is simple."),)
    elif complexity > 0.7:
        found = (
            ("got", 0.6, "The task is complex."),
            ("tree", 0.5, "The parts may be taken one by one."),
        )
    else:
        found = (("tree", 0.5, "There may be more than one way."),)
    return tuple(one for one in found if one[0] != mode)
