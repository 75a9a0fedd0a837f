from pathlib import Path

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

NOTES = Path("notes.txt")

server = MCPServer("notes", version="1.0.0", log_level="WARNING")


@server.tool()
def add_note(text: str) -> str:
    """Write a note down."""
    with NOTES.open("a") as file:
        file.write(f"{text}\n")
    return f"noted: {text}"


@server.tool(annotations=ToolAnnotations(read_only_hint=True), structured_output=False)
def read_notes() -> str:
    """Return all notes, a line each."""
    return NOTES.read_text() if NOTES.exists() else ""


server.run("stdio")
