"""Graphs of thoughts in the database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, select

from plait.reasoning.changes import Changes
from plait.reasoning.graphs import closes_cycle
from plait.reasoning.storage import tables
from plait.reasoning.storage.apply_changes import write_changes
from plait.reasoning.storage.base import SqlBase
from plait.reasoning.storage.rows import reader
from plait.reasoning.values import Graph, GraphEdge, GraphNode

_nodes = tables.graph_nodes
_edges = tables.graph_edges


class GraphRows(SqlBase):
    """The part of a store that keeps graphs; what a backtrack left behind is not in its lists."""

    async def create_graph(self, graph: Graph) -> None:
        """Add a graph."""
        await self.write(Changes(graphs=(graph,)))

    async def get_graph(self, key: str) -> Graph | None:
        """Return a graph."""
        return await self.read_id(Graph, key)

    async def get_session_graphs(self, session_id: str) -> list[Graph]:
        """Return the graphs of a session."""
        table = tables.graphs
        mine = select(table).where(table.c.session_id == session_id)
        return await self.read_many(Graph, mine.order_by(table.c.created_at, table.c.id))

    async def get_latest_graph(self, session_id: str) -> Graph | None:
        """Return the newest graph of a session that no backtrack left behind."""
        table = tables.graphs
        live = select(_nodes.c.id).where(
            _nodes.c.graph_id == table.c.id, _nodes.c.abandoned_by.is_(None)
        )
        mine = select(table).where(table.c.session_id == session_id, live.exists())
        newest = mine.order_by(table.c.created_at.desc(), table.c.id)
        return await self.read_one(Graph, newest)

    async def create_graph_node(self, node: GraphNode) -> None:
        """Add a node."""
        await self.write(Changes(nodes=(node,)))

    async def get_graph_node(self, key: str) -> GraphNode | None:
        """Return a node."""
        return await self.read_id(GraphNode, key)

    async def get_graph_nodes(self, graph_id: str) -> list[GraphNode]:
        """Return the nodes of a graph."""
        return await self.read_many(GraphNode, _live(graph_id).order_by(_nodes.c.position))

    async def get_session_graph_nodes(
        self, session_id: str, *, abandoned: bool = False
    ) -> list[GraphNode]:
        """Return the nodes of all graphs of a session."""
        statement = select(_nodes).where(_nodes.c.session_id == session_id)
        if not abandoned:
            statement = statement.where(_nodes.c.abandoned_by.is_(None))
        return await self.read_many(GraphNode, statement.order_by(_nodes.c.position))

    async def get_active_graph_nodes(self, graph_id: str) -> list[GraphNode]:
        """Return the nodes to go on from, the shallowest and oldest first."""
        active = _live(graph_id).where(_nodes.c.is_active.is_(True))
        return await self.read_many(GraphNode, active.order_by(_nodes.c.depth, _nodes.c.position))

    async def get_root_nodes(self, graph_id: str) -> list[GraphNode]:
        """Return where the graph began."""
        roots = _live(graph_id).where(_nodes.c.is_root.is_(True))
        return await self.read_many(GraphNode, roots.order_by(_nodes.c.position))

    async def get_terminal_nodes(self, graph_id: str) -> list[GraphNode]:
        """Return the conclusions, the best first."""
        ends = _live(graph_id).where(_nodes.c.is_terminal.is_(True))
        best = ends.order_by(_nodes.c.score.desc().nulls_last(), _nodes.c.position)
        return await self.read_many(GraphNode, best)

    async def update_graph_node(self, node: GraphNode) -> None:
        """Replace a node."""
        await self.write(Changes(nodes=(node,)))

    async def delete_graph_node(self, key: str) -> bool:
        """Delete a node and its edges."""
        return await self.delete_where(GraphNode, _nodes.c.id == key) > 0

    async def create_graph_edge(self, edge: GraphEdge) -> None:
        """Add an edge, unless it would close a cycle."""
        async with self.writer.begin() as connection:
            rows = await connection.execute(select(_edges).where(_of(edge.graph_id)))
            read = reader(GraphEdge)
            present = [read({str(key): row[key] for key in row}) for row in rows.mappings()]
            if closes_cycle(present, edge):
                raise ValueError(f"an edge to {edge.to_node} would close a cycle")
            await write_changes(connection, Changes(edges=(edge,)))

    async def get_graph_edges(self, graph_id: str) -> list[GraphEdge]:
        """Return the edges of a graph."""
        return await self._edges(_of(graph_id))

    async def get_session_edges(
        self, session_id: str, *, abandoned: bool = False
    ) -> list[GraphEdge]:
        """Return the edges of all graphs of a session."""
        mine = _edges.c.session_id == session_id
        return await self._edges(mine if abandoned else mine & _edges.c.abandoned_by.is_(None))

    async def get_edges_from(self, node_id: str) -> list[GraphEdge]:
        """Return the edges that leave a node."""
        return await self._edges((_edges.c.from_node == node_id) & _edges.c.abandoned_by.is_(None))

    async def get_edges_to(self, node_id: str) -> list[GraphEdge]:
        """Return the edges that lead to a node."""
        return await self._edges((_edges.c.to_node == node_id) & _edges.c.abandoned_by.is_(None))

    async def _edges(self, where: ColumnElement[bool]) -> list[GraphEdge]:
        ordered = select(_edges).where(where).order_by(_edges.c.created_at, _edges.c.id)
        return await self.read_many(GraphEdge, ordered)

    async def delete_graph_edge(self, key: str) -> bool:
        """Delete an edge."""
        return await self.delete_where(GraphEdge, _edges.c.id == key) > 0


def _live(graph_id: str) -> Select[Any]:
    return select(_nodes).where(_nodes.c.graph_id == graph_id, _nodes.c.abandoned_by.is_(None))


def _of(graph_id: str) -> ColumnElement[bool]:
    return (_edges.c.graph_id == graph_id) & _edges.c.abandoned_by.is_(None)
