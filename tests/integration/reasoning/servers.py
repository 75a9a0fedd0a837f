"""Reasoning servers as processes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mcp import StdioServerParameters

from plait.testing import ServerProcess
from tests.nursery import python

PLAIN = dict.fromkeys(
    ("ANTHROPIC_API_KEY", "LANGBASE_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"), ""
)
"""No model, whatever the machine of the tests has."""

SERVE = ("-m", "plait.cli", "reasoning", "serve", "--backend", "host")
COMMAND = (sys.executable, *SERVE)


def environment() -> dict[str, str]:
    """Return the environment of a server that uses the code under test."""
    inherited = {name: os.environ.get(name, "") for name in ("PYTHONPATH", "PLAIT_MODELS")}
    return {**PLAIN, **inherited}


def stdio_server(database: Path | str) -> StdioServerParameters:
    """Describe a server on stdio."""
    command, *args = COMMAND
    return StdioServerParameters(
        command=command, args=[*args, "--db", str(database)], env=environment()
    )


def http_server(database: Path | str, *options: str, **env: str) -> ServerProcess:
    """Return a server on a port of this machine."""
    command = [*python(), *SERVE, "--http", "127.0.0.1:{port}", "--db", str(database), *options]
    return ServerProcess(command, env={**environment(), **env})
