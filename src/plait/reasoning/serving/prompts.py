"""MCP prompts: instructions for each mode, for a user to choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import mcp_types as types
from mcp.shared.exceptions import MCPError


@dataclass(frozen=True, slots=True, kw_only=True)
class _Guide:
    title: str
    description: str
    text: str


_GUIDES: Final[Mapping[str, _Guide]] = {
    "reason_linear": _Guide(
        title="Think step by step",
        description="Work on a problem one step after the other.",
        text="Work on this problem step by step with reasoning_linear, one thought a call, always "
        "with the same session_id. Follow `next` in the results. When the question is answered, "
        "call reasoning_session_conclude.",
    ),
    "reason_tree": _Guide(
        title="Weigh options",
        description="Branch out, follow the best way, and come back if it fails.",
        text="Open ways to go on with reasoning_tree, make a checkpoint with "
        "reasoning_checkpoint_create, follow the best with reasoning_tree_focus, and end each "
        "with reasoning_tree_complete. If a way fails, call reasoning_backtrack. Conclude with "
        "reasoning_session_conclude.",
    ),
    "reason_divergent": _Guide(
        title="Find new ideas",
        description="Look at a matter from points of view that differ in kind.",
        text="Call reasoning_divergent with challenge_assumptions=true, work out the most viable "
        "view with reasoning_tree, and examine the synthesis with reasoning_reflection.",
    ),
    "reason_reflection": _Guide(
        title="Examine reasoning",
        description="Find what is weak in a piece of reasoning, and improve it.",
        text="Examine this with reasoning_reflection, and examine the improved thought again until "
        "the quality is good. Then call reasoning_reflection_evaluate for the whole session.",
    ),
    "reason_graph": _Guide(
        title="Solve a problem of many parts",
        description="Grow a graph of thoughts, judge, join and prune it, and draw conclusions.",
        text="Begin with reasoning_got_init, grow with reasoning_got_generate, judge with "
        "reasoning_got_score, join what belongs together with reasoning_got_aggregate, mend with "
        "reasoning_got_refine, cut with reasoning_got_prune, and end with "
        "reasoning_got_finalize. Follow `next` in the results.",
    ),
    "reason_auto": _Guide(
        title="Choose a way of reasoning",
        description="Let the server recommend a mode, and follow it.",
        text="Call reasoning_auto with this task, then the tool it recommends. Do without "
        "reasoning tools if the answer is plain.",
    ),
}

_ARGUMENTS = [
    types.PromptArgument(name="problem", description="What to reason about.", required=True),
    types.PromptArgument(name="session_id", description="A session to go on with.", required=False),
]


async def list_prompts(
    _ctx: object, _params: types.PaginatedRequestParams | None
) -> types.ListPromptsResult:
    """List the prompts."""
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(
                name=name, title=guide.title, description=guide.description, arguments=_ARGUMENTS
            )
            for name, guide in _GUIDES.items()
        ]
    )


async def get_prompt(_ctx: object, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    """Return a prompt with its arguments filled in."""
    guide = _GUIDES.get(params.name)
    if guide is None:
        raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")
    arguments = params.arguments or {}
    problem = arguments.get("problem", "").strip()
    if not problem:
        raise MCPError(types.INVALID_PARAMS, "The argument problem is required")
    session = arguments.get("session_id", "").strip()
    continuation = f"\n\nGo on with the session {session}." if session else ""
    content = types.TextContent(text=f"{guide.text}{continuation}\n\n{problem}")
    message = types.PromptMessage(role="user", content=content)
    return types.GetPromptResult(description=guide.description, messages=[message])
