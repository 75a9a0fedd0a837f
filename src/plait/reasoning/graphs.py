"""What can be known of a graph of thoughts without asking a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from plait.reasoning.values import GraphEdge, GraphNode


def closes_cycle(edges: Iterable[GraphEdge], new: GraphEdge) -> bool:
    """Say whether a new edge would lead back to where it starts."""
    return leads_to([(edge.from_node, edge.to_node) for edge in edges], new.to_node, new.from_node)


def leads_to(arrows: Iterable[tuple[str, str]], start: str, goal: str) -> bool:
    """Say whether arrows lead from one name to another; every name leads to itself."""
    following: dict[str, list[str]] = {}
    for source, target in arrows:
        following.setdefault(source, []).append(target)
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        found = waiting.pop()
        if found == goal:
            return True
        if found not in seen:
            seen.add(found)
            waiting.extend(following.get(found, ()))
    return False


def prunable(nodes: Sequence[GraphNode], edges: Sequence[GraphEdge], threshold: float) -> list[str]:
    """Name the nodes to cut: weak ends, then what becomes a weak end by that, and so on."""
    leaving = {node.id: 0 for node in nodes}
    sources: dict[str, list[str]] = {}
    for edge in edges:
        if edge.from_node in leaving and edge.to_node in leaving:
            leaving[edge.from_node] += 1
            sources.setdefault(edge.to_node, []).append(edge.from_node)
    weak = {node.id for node in nodes if _is_weak(node, threshold)}
    waiting = [node.id for node in nodes if node.id in weak and leaving[node.id] == 0]
    cut: list[str] = []
    while waiting:
        found = waiting.pop(0)
        cut.append(found)
        for source in sources.get(found, ()):
            leaving[source] -= 1
            if leaving[source] == 0 and source in weak:
                waiting.append(source)
    return cut


def _is_weak(node: GraphNode, threshold: float) -> bool:
    return (
        not node.is_root
        and not node.is_terminal
        and node.score is not None
        and node.score < threshold
    )
