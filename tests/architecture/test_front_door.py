"""The front door: every public name is there, and nothing heavy comes with it."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

import plait
import plait.errors

HEAVY = (
    "anthropic",
    "anyio",
    "claude_agent_sdk",
    "click",
    "httpx",
    "httpx2",
    "jsonschema",
    "langchain",
    "langchain_core",
    "langgraph",
    "mcp",
    "mcp_types",
    "pydantic",
    "rich",
    "sqlalchemy",
    "tenacity",
    "websockets",
)

_PROBE = """
import json, sys, time
began = time.process_time()
import plait
seconds = time.process_time() - began
print(json.dumps({"modules": sorted(sys.modules), "seconds": seconds}))
"""


def _modules_of_the_front_door() -> dict[str, tuple[str, ...]]:
    return cast("dict[str, tuple[str, ...]]", vars(plait)["_MODULES"])


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


def test_importing_the_package_is_quick(imported: dict[str, object]) -> None:
    assert cast("float", imported["seconds"]) < 0.35


@pytest.mark.parametrize("name", plait.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(plait, name) is not None
    assert name in dir(plait)


def test_nothing_but_public_names_is_listed() -> None:
    assert dir(plait) == sorted(plait.__all__)
    assert len(set(plait.__all__)) == len(plait.__all__)


def test_a_public_name_is_the_one_of_its_module() -> None:
    for module, names in _modules_of_the_front_door().items():
        for name in names:
            assert getattr(plait, name) is getattr(importlib.import_module(module), name)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Toolbax'"):
        plait.Toolbax  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]
    assert not hasattr(plait, "Client")


def test_the_type_checker_sees_the_same_names() -> None:
    tree = ast.parse(Path(plait.__file__).read_text("utf-8"))
    (block,) = [
        node
        for node in tree.body
        if isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    ]
    seen: dict[str, set[str]] = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            assert alias.asname == alias.name, "`X as X` is what makes a name public to checkers"
            seen.setdefault(node.module or "", set()).add(alias.name)

    assert seen == {module: set(names) for module, names in _modules_of_the_front_door().items()}


def test_every_error_is_public() -> None:
    errors = {
        name
        for name, value in vars(plait.errors).items()
        if inspect.isclass(value) and issubclass(value, plait.errors.PlaitError)
    }

    assert errors - set(plait.__all__) == set()


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
