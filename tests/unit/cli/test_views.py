"""What lists and progress look like, at the width of a terminal."""

from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO

from inline_snapshot import snapshot
from rich.console import Console, RenderableType

from plait.cli.commands.lists import marks_of, signature_text, status_table, tool_object
from plait.cli.session import progress_view
from plait.client.catalog.tool import Tool
from plait.client.connections.status import ServerStatus, Status
from plait.errors import ConnectError

READY = ServerStatus(
    name="time",
    transport="stdio",
    state="ready",
    since=datetime(2026, 11, 15, tzinfo=UTC),
    protocol_version="2026-07-28",
    server_info={"name": "mcp-time", "version": "1.26.0"},
    tool_count=2,
    connect_seconds=0.92,
)
DOWN = replace(
    READY,
    name="broken",
    transport="http",
    state="failed",
    error=ConnectError("broken: connection refused"),
    protocol_version=None,
    server_info=None,
    tool_count=None,
    connect_seconds=None,
)
OPENING = replace(DOWN, name="slow", state="connecting", error=None)
EVIL = replace(READY, name="evil", server_info={"name": "\x1b[2J[red]x", "version": "1"})

SEARCH = Tool(
    server="shop",
    wire_name="search",
    name="search",
    input_schema={
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer", "default": 10},
            "order": {"enum": ["price", "name", "newest", "best"]},
            "categories": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["query"],
    },
    annotations={"read_only_hint": True},
)


def drawn(renderable: RenderableType, width: int = 80) -> list[str]:
    console = Console(width=width, file=StringIO(), highlight=False)
    with console.capture() as captured:
        console.print(renderable)
    return [line.rstrip() for line in captured.get().splitlines()]


def test_the_table_of_servers_fits_80_columns() -> None:
    status = Status({server.name: server for server in (READY, DOWN, OPENING, EVIL)})

    assert drawn(status_table(status)) == snapshot(
        [
            "   server  transport  state       protocol    implementation   tools  connect",
            "✓  time    stdio      ready       2026-07-28  mcp-time 1.26.0      2   0.92 s",
            "✗  broken  http       failed      –           –                    –        –",
            "✗  slow    http       connecting  –           –                    –        –",
            "✓  evil    stdio      ready       2026-07-28  \\x1b[2J[red]x 1      2   0.92 s",
        ]
    )


def test_a_signature_breaks_between_parameters() -> None:
    assert drawn(signature_text(SEARCH, 80)) == snapshot(
        [
            "  search(query: string, limit: integer = 10,",
            '      order?: "price"|"name"|"newest"|"best", categories?: string[]) [read-only]',
        ]
    )
    assert len(drawn(signature_text(SEARCH, 200), 200)) == 1
    assert drawn(signature_text(SEARCH, 20), 20) == snapshot(
        [
            "  search(",
            "      query: string,",
            "      limit: integer",
            "= 10,",
            "      order?:",
            '"price"|"name"|"newe',
            'st"|"best",',
            "      categories?:",
            "string[])",
            "      [read-only]",
        ]
    )


def test_a_mark_that_does_not_fit_goes_to_the_next_line() -> None:
    assert drawn(signature_text(SEARCH, 75), 75)[1:] == [
        '      order?: "price"|"name"|"newest"|"best", categories?: string[])',
        "      [read-only]",
    ]


def test_a_tool_without_parameters_is_a_call_without_arguments() -> None:
    assert drawn(signature_text(Tool(server="a", wire_name="now", name="now"), 80)) == ["  now()"]


def test_a_tool_is_marked_by_what_its_server_promises() -> None:
    harmful = replace(SEARCH, annotations={"destructive_hint": True, "idempotent_hint": True})

    assert marks_of(SEARCH) == ["read-only"]
    assert marks_of(harmful) == ["destructive", "idempotent"]
    assert marks_of(replace(SEARCH, annotations={})) == []


def test_a_tool_as_data_has_the_name_that_call_takes() -> None:
    renamed = replace(SEARCH, name="shop__search")

    assert tool_object(renamed)["name"] == "search"


def test_progress_is_a_line_per_server() -> None:
    status = Status({server.name: server for server in (READY, DOWN, OPENING)})

    assert drawn(progress_view(status, 3.14)) == snapshot(
        [
            "✓ time    ready in 0.92 s",
            "✗ broken  connection refused",
            "⠙ slow    connecting over http … 3 s",
        ]
    )


def test_no_server_is_no_line() -> None:
    assert drawn(progress_view(Status({}), 0)) == []
