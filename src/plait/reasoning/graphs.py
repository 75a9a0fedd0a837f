"""Graph algorithms: cycles, reachability and pruning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from plait.reasoning.values import GraphEdge, GraphNode


def leads_to(arrows: Iterable[tuple[str, str]], start: str, goal: str) -> bool:
    """Return whether the goal can be reached from the start; every name reaches itself."""
    following: dict[str, list[str]] = {}
    for source, target in arrows:
        following.setdefault(source, []).append(target)
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name == goal:
            return True
        if name not in seen:
            seen.add(name)
            waiting.extend(following.get(name, ()))
    return False


def prunable(nodes: Sequence[GraphNode], edges: Sequence[GraphEdge], threshold: float) -> list[str]:
    """Return the ids of weak leaves, then of nodes that become weak leaves, and so on."""
    leaving = {node.id: 0 for node in nodes}
    sources: dict[str, list[str]] = {}
    for edge in edges:
        if edge.from_node in leaving and edge.to_node in leaving:
            leaving[edge.from_node] += 1
            sources.setdefault(edge.to_node, []).append(edge.from_node)
    weak = {
        node.id
        for node in nodes
        if not (node.is_root or node.is_terminal or node.score is None) and node.score < threshold
    }
    waiting = [node.id for node in nodes if node.id in weak and leaving[node.id] == 0]
    pruned: list[str] = []
    while waiting:
        leaf = waiting.pop(0)
        pruned.append(leaf)
        for source in sources.get(leaf, ()):
            leaving[source] -= 1
            if leaving[source] == 0 and source in weak:
                waiting.append(source)
    return pruned
