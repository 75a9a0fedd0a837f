"""Draws a diagram as SVG, with one row for each step from the start."""

from __future__ import annotations

from html import escape

from plait.reasoning.export.document import Diagram, label_of

_WIDTH, _HEIGHT = 260, 44
_GAP_X, _GAP_Y = 20, 46


def svg_of(diagram: Diagram) -> str:
    """Draw nodes in rows, and arrows from row to row."""
    rows = _rows(diagram)
    columns: dict[int, int] = {}
    places: dict[str, tuple[int, int]] = {}
    for node in diagram.nodes:
        row = rows[node.key]
        column = columns.get(row, 0)
        columns[row] = column + 1
        places[node.key] = (
            _GAP_X + column * (_WIDTH + _GAP_X),
            _GAP_Y // 2 + row * (_HEIGHT + _GAP_Y),
        )
    width = _GAP_X + max(columns.values(), default=1) * (_WIDTH + _GAP_X)
    height = (max(columns, default=0) + 1) * (_HEIGHT + _GAP_Y)
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">'
        ),
        (
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
            'markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z" fill="#667"/></marker></defs>'
        ),
    ]
    for source, target, word in diagram.arrows:
        (x1, y1), (x2, y2) = places[source], places[target]
        x1, x2, y1 = x1 + _WIDTH // 2, x2 + _WIDTH // 2, y1 + _HEIGHT
        lines.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#667" marker-end="url(#tip)">'
            f"<title>{escape(word)}</title></line>"
        )
    for node in diagram.nodes:
        x, y = places[node.key]
        faded = ' opacity="0.4"' if node.faded else ""
        lines.append(
            f'<g{faded}><title>{escape(node.text)}</title><rect x="{x}" y="{y}" width="{_WIDTH}" '
            f'height="{_HEIGHT}" rx="6" fill="#eef" stroke="#667"/>'
            f'<text x="{x + 8}" y="{y + 18}" fill="#667">{escape(node.kind)}</text>'
            f'<text x="{x + 8}" y="{y + 34}">{escape(label_of(node, 32))}</text></g>'
        )
    lines.append("</svg>")
    return "\n".join(lines) + "\n"


def _rows(diagram: Diagram) -> dict[str, int]:
    """Put each node below everything that leads to it."""
    rows = {node.key: 0 for node in diagram.nodes}
    # Arrows lead from earlier nodes to later ones, so few rounds suffice.
    for _ in rows:
        moved = False
        for source, target, _word in diagram.arrows:
            if rows[target] <= rows[source]:
                rows[target] = rows[source] + 1
                moved = True
        if not moved:
            break
    return rows
