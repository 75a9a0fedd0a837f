"""The front door: every public name is there, and nothing heavy comes with it."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import cast

import pytest

import plait

HEAVY = (
    *("anthropic", "anyio", "claude_agent_sdk", "click", "httpx", "httpx2", "jsonschema"),
    *("langchain", "langchain_core", "langgraph", "mcp", "mcp_types", "pydantic", "rich"),
    *("sqlalchemy", "tenacity", "websockets"),
)

LATE = (
    *("alembic", "anthropic", "claude_agent_sdk", "cryptography", "httpx", "httpx2", "jsonschema"),
    *("jwt", "keyring", "langchain", "langgraph", "langsmith", "mcp", "openai", "opentelemetry"),
    *("referencing", "requests", "rich", "sqlalchemy", "starlette", "tenacity", "uvicorn"),
    *("websockets", "yaml"),
)
"""What no program needs before it connects to a server."""

_SERVER = {"server": {"command": "some-server"}}

_PROBE = """
import json, sys, time
began = time.process_time()
import plait
seconds = time.process_time() - began
print(json.dumps({"modules": sorted(sys.modules), "seconds": seconds}))
"""


ROOMS = (
    *("agents", "client", "gateway", "langchain", "reasoning", "traces", "verification", "viewer"),
)


def _public_names(package: ModuleType) -> list[str]:
    return cast("list[str]", getattr(package, "__all__"))  # noqa: B009  # it is made on demand


@pytest.fixture(scope="module")
def imported() -> dict[str, object]:
    """Import the package in a fresh interpreter, and tell what that took."""
    done = subprocess.run(
        [sys.executable, "-c", _PROBE], capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("module", HEAVY)
def test_importing_the_package_does_not_import(imported: dict[str, object], module: str) -> None:
    assert module not in cast("list[str]", imported["modules"])


@pytest.mark.parametrize(
    ("program", "late"),
    [
        (
            f"from plait import MultiServerMCPClient; MultiServerMCPClient({_SERVER})",
            (*LATE, "langchain_core.messages", "langchain_core.tools.base", "mcp_types"),
        ),
        (
            f"from plait import Toolbox; Toolbox({_SERVER})",
            (*LATE, "langchain_core", "mcp_types"),
        ),
        (
            "import plait.client.transports.http",
            ("mcp", "mcp_types", "jwt", "cryptography", "jsonschema", "starlette"),
        ),
        (
            "from plait.cli import main; main(['--help'], standalone_mode=False)",
            (*LATE, "anyio", "langchain_core", "mcp_types", "pydantic"),
        ),
        (
            "import plait.serve.first_answers",
            (*HEAVY, "asyncio", "dataclasses", "logging", "msgspec", "plait.serve.upstream"),
        ),
    ],
    ids=["MultiServerMCPClient", "Toolbox", "HTTP", "plait --help", "the first answers"],
)
def test_nothing_is_imported_before_it_is_needed(program: str, late: tuple[str, ...]) -> None:
    program += "; import json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )

    assert set(late) & set(json.loads(done.stdout.splitlines()[-1])) == set()


def test_importing_the_package_is_quick(imported: dict[str, object]) -> None:
    assert cast("float", imported["seconds"]) < 0.35


@pytest.mark.parametrize("room", ["plait", *(f"plait.{name}" for name in ROOMS)])
def test_every_public_name_is_there(room: str) -> None:
    package = importlib.import_module(room)

    assert dir(package) == sorted(_public_names(package))
    for name in _public_names(package):
        assert getattr(package, name) is not None


def test_the_front_door_is_small() -> None:
    assert 50 <= len(_public_names(plait)) <= 70


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Toolbax'"):
        plait.Toolbax  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]
    assert not hasattr(plait, "Client")


_USER_PROGRAM = """
from plait import MultiServerMCPClient, NotThere
from plait.client import Toolbox
from plait.langchain import NotThereEither

MultiServerMCPClient({}, tool_name_prefx=True)
Toolbox({}, tool_filtr=None)
"""


@pytest.mark.parametrize(
    "checker",
    [
        ["basedpyright", "--level", "error", "--pythonpath", sys.executable],
        # Reading the packages that plait uses takes mypy half a minute, and finds nothing here.
        ["mypy", "--follow-imports", "silent", "--no-site-packages"],
    ],
)
def test_a_type_checker_finds_misspelt_names_and_options(
    checker: list[str], tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(_USER_PROGRAM)
    (tmp_path / "pyproject.toml").write_text("[tool.basedpyright]\n[tool.mypy]\n")
    command, *options = checker
    found = subprocess.run(
        [Path(sys.executable).with_name(command), *options, program],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=100,
        env={**os.environ, "MYPYPATH": str(Path(plait.__file__).parent.parent)},
    ).stdout

    lines = {int(line) for line in re.findall(r"program\.py:(\d+)\b.*error", found)}
    assert lines == {2, 4, 6, 7}, found


def test_a_name_whose_extra_is_missing_says_what_to_install() -> None:
    program = (
        "import sys\n"
        "sys.modules['langchain_core'] = None\n"
        "try:\n"
        "    from plait import MultiServerMCPClient\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )

    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout

    assert "plait.MultiServerMCPClient" in said
    assert "plait[langchain]" in said
