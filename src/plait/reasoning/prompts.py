"""The system prompts of the modes, and the thoughts of a session in a prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from plait.reasoning.solving.statement import KIND_PROMPT
from plait.reasoning.values import Thought


def _prompt(role: str, shape: str, *rules: str) -> str:
    """Join a role, the JSON to answer with, and a few rules."""
    listed = "\n".join(f"- {rule}" for rule in rules)
    return f"{role}\n\nAnswer with this JSON object and nothing else:\n{shape}\n\n{listed}"


PROMPTS: Final[Mapping[str, str]] = {
    "linear": _prompt(
        "You carry one line of reasoning forward by exactly one step.",
        '{"thought": "the next step", "confidence": 0.8, "metadata": {}}',
        "Build on the earlier thoughts; do not repeat them.",
        "Take one step, and say why it follows.",
        "Name the assumption it rests on, if there is one.",
        "confidence is between 0 and 1: how sure you are that the step holds.",
    ),
    "tree": _prompt(
        "You open several ways to go on from a thought.",
        '{"branches": [{"thought": "one way", "confidence": 0.8, '
        '"rationale": "why it may lead there"}],\n'
        ' "recommended_branch": 0, "metadata": {}}',
        "Give 2-4 distinct paths; two that would end in the same place are one.",
        "Say for each what speaks for it and what it would cost.",
        "confidence is between 0 and 1.",
        "recommended_branch is the index, from 0, of the one to follow first.",
    ),
    "divergent": _prompt(
        "You look at a matter from points of view that nobody in the room has taken.",
        '{"perspectives": [{"thought": "a view", "novelty": 0.7, "viability": 0.6,\n'
        '  "assumptions_challenged": ["what it no longer takes for granted"]}],\n'
        ' "synthesis": "what they show together", "metadata": {}}',
        "Views must differ in kind, not in wording.",
        "novelty: how far it is from the usual view; viability: how well it would work; "
        "both 0 to 1.",
        "A strange view that teaches something is worth more than a safe one.",
        "The synthesis says what holds across the views, and where they cannot all be right.",
    ),
    "reflection": _prompt(
        "You examine a piece of reasoning, and improve it if you can.",
        '{"analysis": "what it does and how well", "strengths": ["…"], "weaknesses": ["…"],\n'
        ' "recommendations": ["…"], "confidence": 0.8, "quality_score": 0.7,\n'
        ' "improved_thought": "the reasoning, better", "metadata": {}}',
        "Look for gaps, hidden assumptions, circular steps and claims without support.",
        "quality_score is between 0 and 1, and is of the reasoning as it was given to you.",
        "Write improved_thought only if it is better than what you were given; otherwise null.",
        "Be as strict with what you like as with what you do not.",
    ),
    "auto": _prompt(
        "You choose the way of reasoning that fits a task.",
        '{"recommended_mode": "linear|tree|divergent|reflection|got", "confidence": 0.8,\n'
        ' "rationale": "why", "complexity": 0.5, "metadata": {}}',
        "linear: one step after the other suffices; complexity below 0.3.",
        "tree: a few options must be weighed; complexity 0.3 to 0.6.",
        "got: many parts that depend on each other; complexity above 0.7.",
        "divergent: new ideas are wanted.",
        "reflection: reasoning that exists is to be judged.",
    ),
    "backtracking": _prompt(
        "You go back to an earlier state of a reasoning session and set out another way.",
        '{"thought": "the first step of the other way", "confidence": 0.8, '
        '"context_restored": true,\n'
        ' "branch_from": "where it leaves the old way", "new_direction": "where it leads",\n'
        ' "metadata": {}}',
        "What came after that state does not count any more; do not build on it.",
        "Say what is different this time.",
        "The step must be one that can be carried on from.",
        "confidence is between 0 and 1.",
    ),
    "got_generate": _prompt(
        "You continue a thought in a graph of thoughts.",
        '{"continuations": [{"thought": "what follows", "confidence": 0.7, "novelty": 0.5,\n'
        '  "rationale": "why it follows"}], "metadata": {}}',
        "Give as many continuations as you are asked for, each different from the others.",
        "A continuation takes the thought further; it does not put it in other words.",
        "confidence and novelty are between 0 and 1.",
        "Keep to the problem, if one is given.",
    ),
    "got_score": _prompt(
        "You judge one thought in a graph of thoughts.",
        '{"overall_score": 0.7, "breakdown": {"relevance": 0.8, "validity": 0.7, "depth": 0.6,\n'
        '  "novelty": 0.5}, "is_terminal_candidate": false, "rationale": "why", "metadata": {}}',
        "relevance: does it serve the problem; validity: does it hold; "
        "depth: does it go beyond the\n  surface; novelty: does it add something. "
        "All are between 0 and 1.",
        "is_terminal_candidate is true only if it could stand as a conclusion.",
        "Use the whole scale; most thoughts are not above 0.8.",
    ),
    "got_aggregate": _prompt(
        "You make one thought out of several in a graph of thoughts.",
        '{"aggregated_thought": "the one thought", "confidence": 0.7, "sources_used": ["1", "2"],\n'
        ' "synthesis_approach": "how they were joined", "conflicts_resolved": ["…"], '
        '"metadata": {}}',
        "Keep what is valid in each; leave out what another refutes.",
        "Where they contradict each other, decide, and say so in conflicts_resolved.",
        "The result says more than any one of them.",
        "confidence is between 0 and 1.",
    ),
    "got_refine": _prompt(
        "You make one thought in a graph of thoughts better.",
        '{"refined_thought": "the better thought", "confidence": 0.7, "improvements_made": ["…"],\n'
        ' "aspects_unchanged": ["…"], "quality_delta": 0.1, "metadata": {}}',
        "Mend what is wrong or vague; keep what is right.",
        "Do not change what the thought is about.",
        "quality_delta, between -1 and 1, is how much better it became.",
        "confidence is between 0 and 1.",
    ),
    "solve": KIND_PROMPT,
}
"""By the fields of `PipeNames`."""


MAX_PROMPT_THOUGHTS = 30
"""The most thoughts in a prompt."""

BUDGET_TOKENS = 4000
"""The most tokens of a session in a prompt, four bytes each."""


def within_budget(
    first: Thought | None, recent: Sequence[Thought], *, most: int, budget: int
) -> list[Thought]:
    """Return the first thought, then as many of the last as fit, in order."""
    if first is None:
        return []
    left = budget - estimated_tokens(first.content)
    kept: list[Thought] = []
    for thought in reversed(recent):
        left -= estimated_tokens(thought.content)
        if thought.id == first.id or left < 0 or len(kept) >= most - 1:
            break
        kept.append(thought)
    return [first, *reversed(kept)]


def estimated_tokens(text: str) -> int:
    """Estimate the number of tokens of a text."""
    return -(-len(text.encode()) // 4)


def truncated(text: str, budget: int = BUDGET_TOKENS) -> str:
    """Cut a text that exceeds the budget."""
    return text if estimated_tokens(text) <= budget else text[: budget * 2] + " […]"


def as_lines(thoughts: Sequence[Thought]) -> str:
    """Return thoughts as a list of lines; a revised one says so."""
    return "\n".join(
        f"- {'(revised later) ' if (thought.metadata or {}).get('revised_by') else ''}"
        f"{truncated(thought.content)}"
        for thought in thoughts
    )
