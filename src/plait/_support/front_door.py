"""Lazy exports: the names in a package's `__init__.pyi`, each imported when it is first used.

The stub is the only list of a package's public names: type checkers read it, and so does this.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path


def lazy_exports(
    package: str, init: str
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package whose `__init__.py` is `init`."""

    @cache
    def modules() -> dict[str, str]:
        stub = Path(init).with_suffix(".pyi")
        names: dict[str, str] = {}
        for node in ast.parse(stub.read_text("utf-8")).body:
            match node:
                case ast.ImportFrom(module=str(module), names=aliases):
                    names.update((alias.name, module) for alias in aliases)
                case ast.AnnAssign(target=ast.Name(id=name)):
                    names[name] = package
                case _:
                    raise AssertionError(f"{stub} holds more than imports: line {node.lineno}")
        return names

    def get_attribute(name: str) -> object:
        if name == "__all__":
            return sorted(modules())
        module = None if name.startswith("__") else modules().get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with needing_extras(f"{package}.{name}"):
            value: object = getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)
        return value

    return get_attribute, lambda: sorted(modules())


_EXTRAS = {
    "langchain": "langchain",
    "langchain_core": "langchain",
    "langgraph": "langchain",
    "langchain_anthropic": "models",
    "langchain_openai": "models",
    "anthropic": "anthropic",
    "claude_agent_sdk": "claude",
    "sqlalchemy": "reasoning",
    "alembic": "reasoning",
    "aiosqlite": "reasoning",
    "keyring": "keyring",
    "mcp": "sdk",
    "starlette": "viewer",
    "uvicorn": "viewer",
    "z3": "solve",
}
"""The extra that installs a library."""


@contextmanager
def needing_extras(name: str) -> Generator[None]:
    """Import what `name` needs in the block; what is missing is named with its extra."""
    try:
        yield
    except ImportError as error:
        raise missing_extra(name, error) from error


def missing_extra(name: str, error: ImportError) -> ImportError:
    """Return the error that says how to install what is missing, if an extra of plait has it.

    A name that the installed version of a library does not have counts as missing.
    """
    extra = _EXTRAS.get((error.name or "").partition(".")[0])
    if extra is None:
        return error
    hint = f"pip install 'plait[{extra}]'"
    if isinstance(error, ModuleNotFoundError):
        text = f"{name} needs {error.name}, which is not installed: {hint}"
    else:
        text = f"{name} needs another version of {error.name}: {hint}"
    return ImportError(text, name=error.name)
