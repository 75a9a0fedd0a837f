"""A reasoning session on the terminal: its thoughts and graphs as trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text
from rich.tree import Tree

from plait._support.exception_groups import one_line
from plait.cli.terminal import visible, visible_line

if TYPE_CHECKING:
    from plait.reasoning.export import SessionDocument
    from plait.reasoning.values import GraphNode, Thought


def session_tree(whole: SessionDocument) -> Group:
    """Render a session; abandoned thoughts are dim."""
    session = whole.session
    head = Text(f"{session.id}  {session.mode}, {session.status}", style="bold")
    parts: list[Text | Tree] = [head]
    if session.conclusion:
        text = _short(str(session.conclusion.get("text", "")))
        parts.append(Text(f"conclusion: {text} ■", style="bold green"))
    if whole.thoughts:
        parts.append(_thoughts(whole))
    for graph in whole.graphs:
        nodes = [node for node in whole.nodes if node.graph_id == graph.id]
        parts.append(_graph(graph.problem or graph.id, nodes, whole))
    if whole.checkpoints:
        names = ", ".join(f"{visible(one.name)} (c{one.position})" for one in whole.checkpoints)
        parts.append(Text(f"checkpoints: {names}"))
    return Group(*parts)


_STATES = {"completed": "✓", "abandoned": "✗"}


def _thoughts(whole: SessionDocument) -> Tree:
    from plait.reasoning.diagram import note_of

    branches = {branch.id: branch for branch in whole.branches}
    followed = [
        one.id
        for one in whole.thoughts
        if one.branch_id == whole.session.active_branch_id and not one.abandoned_by
    ]
    grounds: Sequence[str] = (whole.session.conclusion or {}).get("thought_ids", ())
    children: dict[str | None, list[Thought]] = {}
    parents = whole.parents
    for thought in whole.thoughts:
        children.setdefault(parents[thought.id], []).append(thought)

    def grow(tree: Tree, thoughts: Sequence[Thought]) -> None:
        # Steps without a choice stand below each other; only a choice is indented.
        while len(thoughts) == 1:
            node = tree.add(line_of(thoughts[0]))
            thoughts = children.get(thoughts[0].id, ())
            tree = node if len(thoughts) > 1 else tree
        for thought in thoughts:
            grow(tree.add(line_of(thought)), children.get(thought.id, ()))

    def line_of(thought: Thought) -> Text:
        branch = branches.get(thought.branch_id or "")
        faded = thought.abandoned_by or (branch and branch.state == "abandoned")
        mark = f" [{visible_line(branch.name)}]" if branch else ""
        if branch and branch.state != "active":
            mark += f" {_STATES[branch.state]} {branch.state}"
        if branch and thought.id in followed[-1:]:
            mark += " ◀ followed"
        if thought.id in grounds:
            mark += " ■"
        head = f"t{thought.position} {thought.confidence:.2f} {thought.mode}: "
        line = Text(
            f"{head}{_short(thought.content)}{mark}",
            style="dim" if faded else _colour(thought.confidence),
        )
        if note := note_of(thought.metadata):
            line.append(f"  {_short(note)}", style="dim")
        return line

    root = Tree(Text("thoughts"))
    grow(root, children.get(None, ()))
    return root


def _graph(title: str, nodes: Sequence[GraphNode], whole: SessionDocument) -> Tree:
    """Render a graph as a tree; a node with several parents is repeated in short form."""
    from plait.reasoning.diagram import note_of

    by_id = {node.id: node for node in nodes}
    following: dict[str, list[tuple[str, str]]] = {}
    reached: set[str] = set()
    for edge in whole.edges:
        if edge.from_node in by_id and edge.to_node in by_id:
            following.setdefault(edge.from_node, []).append((edge.edge_type, edge.to_node))
            reached.add(edge.to_node)
    shown: set[str] = set()

    def grow(tree: Tree, key: str, word: str) -> None:
        node = by_id[key]
        score = " –  " if node.score is None else f"{node.score:.2f}"
        if key in shown:
            tree.add(Text(f"{word}{score} (see above) {_short(node.content)}", style="dim"))
            return
        shown.add(key)
        mark = " ■" if node.is_terminal else " ●" if node.is_active else ""
        line = f"{word}{score} {node.node_type}: {_short(node.content)}{mark} (n{node.position})"
        label = Text(line, style="dim" if node.abandoned_by else _colour(node.score))
        if note := note_of(node.metadata):
            label.append(f"  {_short(note)}", style="dim")
        grown = tree.add(label)
        for kind, target in following.get(key, ()):
            grow(grown, target, f"{kind} → ")

    root = Tree(Text(f"graph: {_short(title)}   ● active  ■ conclusion"))
    for node in nodes:
        if node.id not in reached:
            grow(root, node.id, "")
    return root


def _colour(score: float | None) -> str:
    if score is None:
        return ""
    return "green" if score >= 0.8 else "yellow" if score >= 0.5 else "red"


def _short(text: str) -> str:
    return one_line(visible_line(text), 100)
