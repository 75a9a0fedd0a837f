"""Every tool of the server, in the order in which they are listed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, Final, get_args, get_type_hints

from plait.reasoning.arguments import Params
from plait.reasoning.call_context import CallContext, Outcome
from plait.reasoning.modes import (
    auto,
    backtracking,
    checkpoints,
    divergent,
    got_graph,
    got_growth,
    linear,
    reflection,
    sessions,
    tree,
)
from plait.reasoning.results import ResultPart

Run = Callable[[Any, CallContext], Awaitable[Outcome[ResultPart]]]


@dataclass(frozen=True)
class Tool:
    """A tool: its description and behaviour.

    The annotations of `run` are the models of its arguments and result.
    """

    name: str
    run: Run
    title: str
    description: str
    _: KW_ONLY
    uses_model: bool = False
    """Whether it may send a request to a model."""
    read_only: bool = False
    destructive: bool = False
    """Whether it deletes something."""
    idempotent: bool = False
    """Whether a second call with the same arguments changes nothing more."""

    @cached_property
    def params(self) -> type[Params]:
        """The model of its arguments."""
        return get_type_hints(self.run)["params"]

    @cached_property
    def result(self) -> type[ResultPart]:
        """The model of its result."""
        return get_args(get_type_hints(self.run)["return"])[0]


_TOOLS: Final = (
    Tool(
        "reasoning_linear",
        linear.linear,
        "Linear reasoning",
        "Take one step of reasoning that builds on the earlier thoughts of the "
        "session. Use it for problems that one step after the other can solve.",
        uses_model=True,
    ),
    Tool(
        "reasoning_tree",
        tree.tree,
        "Branch out",
        "Open 2 to 4 distinct ways to go on from a thought, each as a branch, and "
        "recommend one. Use it when there is more than one way.",
        uses_model=True,
    ),
    Tool(
        "reasoning_tree_focus",
        tree.tree_focus,
        "Follow a branch",
        "Make a branch the active one, so that reasoning goes on from it.",
        idempotent=True,
    ),
    Tool(
        "reasoning_tree_list",
        tree.tree_list,
        "List branches",
        "List all branches of a session with their states.",
        read_only=True,
    ),
    Tool(
        "reasoning_tree_complete",
        tree.tree_complete,
        "End a branch",
        "Mark a branch as completed, or as abandoned.",
        idempotent=True,
    ),
    Tool(
        "reasoning_divergent",
        divergent.divergent,
        "Other points of view",
        "Look at a matter from 2 to 5 points of view that differ in kind, and say "
        "what they show together. Use it when the usual answers do not do.",
        uses_model=True,
    ),
    Tool(
        "reasoning_reflection",
        reflection.reflection,
        "Reflect",
        "Examine a thought or a text, name strengths and weaknesses, and improve it "
        "until it is good enough.",
        uses_model=True,
    ),
    Tool(
        "reasoning_reflection_evaluate",
        reflection.evaluate,
        "Evaluate a session",
        "Measure a whole session: confidence, modes and coherence. No model is asked.",
        read_only=True,
    ),
    Tool(
        "reasoning_backtrack",
        backtracking.backtrack,
        "Backtrack",
        "Bring a session back to a checkpoint (thoughts, branches, active branch and "
        "graph) and set out another way. What came after is kept on an abandoned branch.",
        uses_model=True,
    ),
    Tool(
        "reasoning_checkpoint_create",
        checkpoints.checkpoint_create,
        "Make a checkpoint",
        "Keep the state of a session under a name, to be able to come back to it.",
    ),
    Tool(
        "reasoning_checkpoint_list",
        checkpoints.checkpoint_list,
        "List checkpoints",
        "List the checkpoints of a session, newest first.",
        read_only=True,
    ),
    Tool(
        "reasoning_auto",
        auto.auto,
        "Choose a mode",
        "Recommend the mode of reasoning that fits a task, and with execute=true "
        "take its first step. Not needed for questions with a plain answer.",
        uses_model=True,
    ),
    Tool(
        "reasoning_got_init",
        got_graph.got_init,
        "Begin a graph",
        "Begin a graph of thoughts, for problems with many parts that depend on "
        "each other. A session may hold several.",
    ),
    Tool(
        "reasoning_got_generate",
        got_growth.got_generate,
        "Continue a node",
        "Make k continuations of a node of the graph.",
        uses_model=True,
    ),
    Tool(
        "reasoning_got_score",
        got_growth.got_score,
        "Judge a node",
        "Judge a node of the graph by relevance, validity, depth and novelty.",
        uses_model=True,
    ),
    Tool(
        "reasoning_got_aggregate",
        got_growth.got_aggregate,
        "Join nodes",
        "Make one node out of several of the graph.",
        uses_model=True,
    ),
    Tool(
        "reasoning_got_refine",
        got_growth.got_refine,
        "Refine a node",
        "Make a node of the graph better.",
        uses_model=True,
    ),
    Tool(
        "reasoning_got_prune",
        got_graph.got_prune,
        "Prune the graph",
        "Delete the weak ends of the graph, and what becomes a weak end by that.",
        destructive=True,
        idempotent=True,
    ),
    Tool(
        "reasoning_got_finalize",
        got_graph.got_finalize,
        "Draw conclusions",
        "Mark nodes of the graph as its conclusions.",
    ),
    Tool(
        "reasoning_got_state",
        got_graph.got_state,
        "Show the graph",
        "Tell how a graph stands: its nodes, edges, depth and frontier.",
        read_only=True,
    ),
    Tool(
        "reasoning_session_list",
        sessions.session_list,
        "List sessions",
        "List reasoning sessions, the one that changed last first.",
        read_only=True,
    ),
    Tool(
        "reasoning_session_get",
        sessions.session_get,
        "Read a session",
        "Read a session: thoughts, branches, checkpoints, graphs and token costs.",
        read_only=True,
    ),
    Tool(
        "reasoning_session_search",
        sessions.session_search,
        "Search thoughts",
        "Find thoughts by their text, in one session or in all.",
        read_only=True,
    ),
    Tool(
        "reasoning_session_export",
        sessions.session_export,
        "Export a session",
        "Write a session as JSON, Markdown, Mermaid, DOT or SVG.",
        read_only=True,
    ),
    Tool(
        "reasoning_session_delete",
        sessions.session_delete,
        "Delete a session",
        "Throw a session away with everything in it.",
        destructive=True,
        idempotent=True,
    ),
    Tool(
        "reasoning_session_fork",
        sessions.session_fork,
        "Copy a session",
        "Copy what counts in a session into a new one, to try something else there.",
    ),
    Tool(
        "reasoning_session_conclude",
        sessions.session_conclude,
        "Conclude a session",
        "Close a session with what it came to. Use it when the question is answered; "
        "nothing can be added until the session is reopened.",
    ),
    Tool(
        "reasoning_session_reopen",
        sessions.session_reopen,
        "Reopen a session",
        "Open a concluded session again.",
    ),
)

TOOLS: Final[Mapping[str, Tool]] = {tool.name: tool for tool in _TOOLS}
