"""Adding the reasoning server to the configuration of another program."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from plait._support.files import write_atomically
from plait.errors import ConfigError

CLIENTS = ("claude-desktop", "claude-code", "cursor", "vscode", "plait")
"""The supported programs."""


def config_path(client: str, home: Path, cwd: Path, environ: Mapping[str, str]) -> Path:
    """Return the file with the servers of a program."""
    return {
        "claude-desktop": _applications(home, environ) / "Claude" / "claude_desktop_config.json",
        "claude-code": cwd / ".mcp.json",
        "cursor": home / ".cursor" / "mcp.json",
        "vscode": cwd / ".vscode" / "mcp.json",
        "plait": cwd / "mcp.json",
    }[client]


def _applications(home: Path, environ: Mapping[str, str]) -> Path:
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    if sys.platform == "win32":
        return Path(environ.get("APPDATA", home / "AppData" / "Roaming"))
    return Path(environ.get("XDG_CONFIG_HOME", home / ".config"))


def server_entry(db: str | None) -> dict[str, Any]:
    """Return the configuration entry of the server."""
    program = shutil.which("plait")
    command = [program] if program else [sys.executable, "-m", "plait.cli"]
    arguments = [*command[1:], "reasoning", "serve", *(["--db", db] if db else [])]
    return {"command": command[0], "args": arguments}


def install(client: str, path: Path, entry: Mapping[str, Any], *, replace: bool) -> None:
    """Add the server to a file, and keep a backup of the file."""
    key = "servers" if client == "vscode" else "mcpServers"
    document = _read(path)
    found: object = document.setdefault(key, {})
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: {key} is not an object")
    servers = cast("dict[str, Any]", found)
    if "reasoning" in servers and not replace:
        raise ConfigError(f"{path} already has a server named reasoning: --force replaces it")
    servers["reasoning"] = {"type": "stdio", **entry} if client == "vscode" else dict(entry)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        shutil.copy2(path, path.with_name(path.name + ".bak"))
    write_atomically(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        found: object = json.loads(path.read_text("utf-8-sig") or "{}")
    except ValueError:
        raise ConfigError(
            f"{path} is not plain JSON, and comments would be lost: add the server manually; "
            "--print shows the entry"
        ) from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path} is not a JSON object")
    return cast("dict[str, Any]", found)
