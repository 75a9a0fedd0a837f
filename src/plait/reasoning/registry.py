"""Every tool of the server, in the order in which they are listed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from plait.reasoning.arguments import Params
from plait.reasoning.call_context import Outcome, Work
from plait.reasoning.modes import (
    auto,
    backtracking,
    checkpoints,
    divergent,
    evaluate,
    got_graph,
    got_growth,
    got_shapes,
    linear,
    reflection,
    sessions,
    tree,
    views,
)
from plait.reasoning.results import Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool: what it takes, gives and does, and how it behaves."""

    name: str
    title: str
    description: str
    params: type[Params]
    result: type[Shown]
    run: Callable[[Any, Work], Awaitable[Outcome[Shown]]]

    asks: bool = False
    """Whether it may ask a model."""
    reads: bool = False
    """Whether it changes nothing."""
    destroys: bool = False
    """Whether something is gone afterwards."""
    repeatable: bool = False
    """Whether a second call with the same arguments changes nothing more."""


_TOOLS: Final = (
    Tool(
        name="reasoning_linear",
        title="Linear reasoning",
        description="Take one step of reasoning that builds on the earlier thoughts of the "
        "session. Use it for problems that one step after the other can solve.",
        params=linear.LinearParams,
        result=linear.LinearResult,
        run=linear.linear,
        asks=True,
    ),
    Tool(
        name="reasoning_tree",
        title="Branch out",
        description="Open 2 to 4 distinct ways to go on from a thought, each as a branch, and "
        "recommend one. Use it when there is more than one way.",
        params=tree.TreeParams,
        result=tree.TreeResult,
        run=tree.tree,
        asks=True,
    ),
    Tool(
        name="reasoning_tree_focus",
        title="Follow a branch",
        description="Make a branch the active one, so that reasoning goes on from it.",
        params=tree.FocusParams,
        result=views.BranchResult,
        run=tree.tree_focus,
        repeatable=True,
    ),
    Tool(
        name="reasoning_tree_list",
        title="List branches",
        description="List all branches of a session with their states.",
        params=tree.ListParams,
        result=views.BranchList,
        run=tree.tree_list,
        reads=True,
    ),
    Tool(
        name="reasoning_tree_complete",
        title="End a branch",
        description="Mark a branch as completed, or as abandoned.",
        params=tree.CompleteParams,
        result=views.BranchResult,
        run=tree.tree_complete,
        repeatable=True,
    ),
    Tool(
        name="reasoning_divergent",
        title="Other points of view",
        description="Look at a matter from 2 to 5 points of view that differ in kind, and say "
        "what they show together. Use it when the usual answers do not do.",
        params=divergent.DivergentParams,
        result=divergent.DivergentResult,
        run=divergent.divergent,
        asks=True,
    ),
    Tool(
        name="reasoning_reflection",
        title="Reflect",
        description="Examine a thought or a text, name strengths and weaknesses, and improve it "
        "until it is good enough.",
        params=reflection.ReflectionParams,
        result=reflection.ReflectionResult,
        run=reflection.reflection,
        asks=True,
    ),
    Tool(
        name="reasoning_reflection_evaluate",
        title="Evaluate a session",
        description="Measure a whole session: confidence, modes and coherence. No model is asked.",
        params=tree.ListParams,
        result=evaluate.EvaluateResult,
        run=evaluate.evaluate,
        reads=True,
    ),
    Tool(
        name="reasoning_backtrack",
        title="Backtrack",
        description="Bring a session back to a checkpoint (thoughts, branches, active branch and "
        "graph) and set out another way. What came after is kept on an abandoned branch.",
        params=backtracking.BacktrackParams,
        result=backtracking.BacktrackResult,
        run=backtracking.backtrack,
        asks=True,
    ),
    Tool(
        name="reasoning_checkpoint_create",
        title="Make a checkpoint",
        description="Keep the state of a session under a name, to be able to come back to it.",
        params=checkpoints.CheckpointParams,
        result=views.CheckpointResult,
        run=checkpoints.checkpoint_create,
    ),
    Tool(
        name="reasoning_checkpoint_list",
        title="List checkpoints",
        description="List the checkpoints of a session, newest first.",
        params=tree.ListParams,
        result=views.CheckpointList,
        run=checkpoints.checkpoint_list,
        reads=True,
    ),
    Tool(
        name="reasoning_auto",
        title="Choose a mode",
        description="Recommend the mode of reasoning that fits a task, and with execute=true "
        "take its first step. Not needed for questions with a plain answer.",
        params=auto.AutoParams,
        result=auto.AutoResult,
        run=auto.auto,
        asks=True,
    ),
    Tool(
        name="reasoning_got_init",
        title="Begin a graph",
        description="Begin a graph of thoughts, for problems with many parts that depend on "
        "each other. A session may hold several.",
        params=got_graph.InitParams,
        result=got_graph.InitResult,
        run=got_graph.got_init,
    ),
    Tool(
        name="reasoning_got_generate",
        title="Continue a node",
        description="Make k continuations of a node of the graph.",
        params=got_shapes.GenerateParams,
        result=got_shapes.GenerateResult,
        run=got_growth.got_generate,
        asks=True,
    ),
    Tool(
        name="reasoning_got_score",
        title="Judge a node",
        description="Judge a node of the graph by relevance, validity, depth and novelty.",
        params=got_shapes.ScoreParams,
        result=got_shapes.ScoreResult,
        run=got_growth.got_score,
        asks=True,
    ),
    Tool(
        name="reasoning_got_aggregate",
        title="Join nodes",
        description="Make one node out of several of the graph.",
        params=got_shapes.AggregateParams,
        result=got_shapes.AggregateResult,
        run=got_growth.got_aggregate,
        asks=True,
    ),
    Tool(
        name="reasoning_got_refine",
        title="Refine a node",
        description="Make a node of the graph better.",
        params=got_shapes.RefineParams,
        result=got_shapes.RefineResult,
        run=got_growth.got_refine,
        asks=True,
    ),
    Tool(
        name="reasoning_got_prune",
        title="Prune the graph",
        description="Delete the weak ends of the graph, and what becomes a weak end by that.",
        params=got_graph.PruneParams,
        result=got_graph.PruneResult,
        run=got_graph.got_prune,
        destroys=True,
        repeatable=True,
    ),
    Tool(
        name="reasoning_got_finalize",
        title="Draw conclusions",
        description="Mark nodes of the graph as its conclusions.",
        params=got_graph.FinalizeParams,
        result=got_graph.FinalizeResult,
        run=got_graph.got_finalize,
    ),
    Tool(
        name="reasoning_got_state",
        title="Show the graph",
        description="Tell how a graph stands: its nodes, edges, depth and frontier.",
        params=got_graph.GraphParams,
        result=got_graph.StateResult,
        run=got_graph.got_state,
        reads=True,
    ),
    Tool(
        name="reasoning_session_list",
        title="List sessions",
        description="List reasoning sessions, the one that changed last first.",
        params=sessions.SessionsParams,
        result=sessions.SessionsResult,
        run=sessions.session_list,
        reads=True,
    ),
    Tool(
        name="reasoning_session_get",
        title="Read a session",
        description="Read a session: thoughts, branches, checkpoints, graphs and token costs.",
        params=sessions.GetParams,
        result=sessions.GetResult,
        run=sessions.session_get,
        reads=True,
    ),
    Tool(
        name="reasoning_session_search",
        title="Search thoughts",
        description="Find thoughts by their text, in one session or in all.",
        params=sessions.SearchParams,
        result=sessions.SearchResult,
        run=sessions.session_search,
        reads=True,
    ),
    Tool(
        name="reasoning_session_export",
        title="Export a session",
        description="Write a session as JSON, Markdown, Mermaid, DOT or SVG.",
        params=sessions.ExportParams,
        result=sessions.ExportResult,
        run=sessions.session_export,
        reads=True,
    ),
    Tool(
        name="reasoning_session_delete",
        title="Delete a session",
        description="Throw a session away with everything in it.",
        params=tree.ListParams,
        result=sessions.DeleteResult,
        run=sessions.session_delete,
        destroys=True,
        repeatable=True,
    ),
    Tool(
        name="reasoning_session_fork",
        title="Copy a session",
        description="Copy what counts in a session into a new one, to try something else there.",
        params=sessions.ForkParams,
        result=sessions.ForkResult,
        run=sessions.session_fork,
    ),
    Tool(
        name="reasoning_session_conclude",
        title="Conclude a session",
        description="Close a session with what it came to. Use it when the question is answered; "
        "nothing can be added until the session is reopened.",
        params=sessions.ConcludeParams,
        result=sessions.ConcludeResult,
        run=sessions.session_conclude,
    ),
    Tool(
        name="reasoning_session_reopen",
        title="Reopen a session",
        description="Open a concluded session again.",
        params=sessions.ReopenParams,
        result=sessions.ReopenResult,
        run=sessions.session_reopen,
    ),
)

TOOLS: Final[Mapping[str, Tool]] = {tool.name: tool for tool in _TOOLS}
