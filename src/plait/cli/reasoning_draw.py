"""A reasoning session on the terminal: its thoughts as a tree, and its graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text
from rich.tree import Tree

from plait.cli.terminal import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plait.reasoning.export.document import SessionDocument
    from plait.reasoning.values import GraphNode, Thought


def drawn(whole: SessionDocument) -> Group:
    """Render a session; abandoned thoughts are dim."""
    session = whole.session
    head = Text(f"{session.id}  {session.mode}, {session.status}", style="bold")
    parts: list[Text | Tree] = [head]
    if session.conclusion:
        parts.append(Text(f"conclusion: {_line(str(session.conclusion.get('text', '')))}"))
    if whole.thoughts:
        parts.append(_thoughts(whole))
    for graph in whole.graphs:
        nodes = [node for node in whole.nodes if node.graph_id == graph.id]
        parts.append(_graph(graph.problem or graph.id, nodes, whole))
    if whole.checkpoints:
        names = ", ".join(f"{visible(one.name)} ({one.id[:8]})" for one in whole.checkpoints)
        parts.append(Text(f"checkpoints: {names}"))
    return Group(*parts)


def _thoughts(whole: SessionDocument) -> Tree:
    names = {branch.id: branch.name for branch in whole.branches}
    states = {branch.id: branch.state for branch in whole.branches}
    children: dict[str | None, list[Thought]] = {}
    known = {thought.id for thought in whole.thoughts}
    for thought in whole.thoughts:
        parent = thought.parent_id if thought.parent_id in known else None
        children.setdefault(parent, []).append(thought)

    def grow(tree: Tree, thoughts: Sequence[Thought]) -> None:
        for thought in thoughts:
            state = states.get(thought.branch_id or "", "")
            faded = thought.abandoned_by is not None or state == "abandoned"
            mark = f" [{names[thought.branch_id]}]" if thought.branch_id in names else ""
            line = f"{thought.confidence:.2f} {thought.mode}: {_line(thought.content)}{mark}"
            label = Text(line, style="dim" if faded else _colour(thought.confidence))
            grow(tree.add(label), children.get(thought.id, ()))

    root = Tree(Text("thoughts"))
    grow(root, children.get(None, ()))
    return root


def _graph(title: str, nodes: Sequence[GraphNode], whole: SessionDocument) -> Tree:
    """Render a graph as a tree; a node with several parents is repeated in short form."""
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
            tree.add(Text(f"{word}{score} (see above) {_line(node.content)}", style="dim"))
            return
        shown.add(key)
        mark = " ■" if node.is_terminal else " ●" if node.is_active else ""
        line = f"{word}{score} {node.node_type}: {_line(node.content)}{mark}"
        style = "dim" if node.abandoned_by else _colour(node.score)
        grown = tree.add(Text(line, style=style))
        for kind, target in following.get(key, ()):
            grow(grown, target, f"{kind} → ")

    root = Tree(Text(f"graph: {_line(title)}   ● active  ■ conclusion"))
    for node in nodes:
        if node.id not in reached:
            grow(root, node.id, "")
    return root


def _colour(score: float | None) -> str:
    if score is None:
        return ""
    return "green" if score >= 0.8 else "yellow" if score >= 0.5 else "red"


def _line(text: str, width: int = 100) -> str:
    folded = visible(" ".join(text.split()))
    return folded if len(folded) <= width else folded[: width - 1] + "…"
