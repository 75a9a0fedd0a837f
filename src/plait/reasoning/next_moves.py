"""What makes sense next, worked out from the state alone."""

from __future__ import annotations

from typing import Any

from plait.reasoning.results import Move
from plait.reasoning.values import Thought

WEAK = 0.6
"""Below this confidence a thought deserves a second look."""


def move(tool: str, why: str, **arguments: Any) -> Move:
    """Suggest a call."""
    return Move(tool=tool, arguments=arguments, why=why)


def after_thought(thought: Thought, repeated: Thought | None) -> list[Move]:
    """Say what to do after one more thought on a line."""
    session = thought.session_id
    moves: list[Move] = []
    if repeated is not None:
        place = f"thought {repeated.position}" if repeated.position else "an earlier thought"
        moves.append(
            move(
                "reasoning_tree",
                f"this says the same as {place} ({repeated.id}): look for other ways",
                session_id=session,
            )
        )
    if thought.confidence < WEAK:
        moves.append(
            move(
                "reasoning_reflection",
                f"the confidence is only {thought.confidence:.2f}: find out what is weak",
                session_id=session,
                thought_id=thought.id,
            )
        )
    moves.append(move("reasoning_linear", "take the next step", session_id=session))
    moves.append(
        move("reasoning_session_conclude", "if the question is answered", session_id=session)
    )
    return moves
