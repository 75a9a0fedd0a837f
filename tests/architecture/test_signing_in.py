"""Signing in needs no MCP SDK, so that it works beside every version of it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "src" / "plait"
FILES = (
    *(ROOT / "client" / "transports" / "auth").glob("*.py"),
    ROOT / "cli" / "commands" / "auth.py",
    ROOT / "cli" / "commands" / "doctor.py",
)

WITHOUT_SDK = """
import sys
sys.modules["mcp"] = None
import plait.client.transports.auth.auth_objects, plait.client.transports.auth.flow
"""


def imports_of(file: Path) -> set[str]:
    """Return the packages that a file imports, at its top or in functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names}


def test_no_module_for_signing_in_imports_the_sdk() -> None:
    assert len(FILES) > 10
    assert [file.name for file in FILES if "mcp" in imports_of(file)] == []


def test_a_server_is_signed_in_to_where_there_is_no_sdk() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SDK], capture_output=True, text=True, check=False, timeout=60
    )

    assert (done.returncode, done.stderr) == (0, "")
