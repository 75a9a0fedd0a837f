"""What is known of graphs without a model, for graphs of any shape."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from plait.reasoning.graphs import leads_to, prunable
from plait.reasoning.values import GraphEdge, GraphNode

scores = st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=12)


def _graph(found: list[float | None], draws: list[int]) -> tuple[list[GraphNode], list[GraphEdge]]:
    """Make a graph whose edges lead from earlier nodes to later ones."""
    nodes = [
        GraphNode(
            id=str(index),
            graph_id="g",
            session_id="s",
            content="c",
            score=score,
            is_root=index == 0,
        )
        for index, score in enumerate(found)
    ]
    edges = [
        GraphEdge(
            graph_id="g", session_id="s", from_node=str(draws[index] % index), to_node=str(index)
        )
        for index in range(1, len(nodes))
    ]
    return nodes, edges


@given(scores, st.lists(st.integers(0, 100), min_size=12, max_size=12), st.floats(0, 1))
def test_pruning_ends_when_no_weak_end_is_left(
    found: list[float | None], draws: list[int], threshold: float
) -> None:
    nodes, edges = _graph(found, draws)

    cut = prunable(nodes, edges, threshold)

    kept = [node for node in nodes if node.id not in cut]
    assert len(cut) == len(set(cut))
    assert all(
        node.score is not None and node.score < threshold for node in nodes if node.id in cut
    )
    left = [edge for edge in edges if edge.to_node not in cut and edge.from_node not in cut]
    assert prunable(kept, left, threshold) == []
    # Whatever is kept is still reached from where it came.
    assert all(edge.from_node not in cut for edge in edges if edge.to_node not in cut)


@given(scores, st.lists(st.integers(0, 100), min_size=12, max_size=12))
def test_every_node_is_reached_from_the_root_and_the_root_only_from_itself(
    found: list[float | None], draws: list[int]
) -> None:
    nodes, edges = _graph(found, draws)
    arrows = [(edge.from_node, edge.to_node) for edge in edges]

    for node in nodes:
        assert leads_to(arrows, "0", node.id)
        assert leads_to(arrows, node.id, "0") == (node.id == "0")
