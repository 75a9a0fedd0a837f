"""The tree is the architecture: its folders are the layers."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import plait

PACKAGE = Path(plait.__file__).parent
REPOSITORY = PACKAGE.parent.parent
MODULES = sorted(PACKAGE.rglob("*.py"))

_WORD = r"[A-Za-z0-9_.-]"
REGISTRY = re.compile(
    r"(?:p[y]pi|python[h]osted|n[p]mjs|crates|anaconda|rubygems|jsr)\.(?:org|com|io)\b",
    re.IGNORECASE,
)
MACHINE_PATH = re.compile(rf"(?<!{_WORD})(?<!/)/(?:home|root|Users|work|mnt|opt|tmp)/{_WORD}+")
TEXT_SUFFIXES = (".json", ".md", ".py", ".pyi", ".sh", ".toml", ".txt", ".yaml", ".yml")


def _layers_contract() -> dict[str, Any]:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (contract,) = [found for found in contracts if found["id"] == "rooms"]
    return contract


def test_the_layers_are_the_folders_and_modules_of_the_package() -> None:
    contract = _layers_contract()
    there = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py"} | {
        path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()
    }

    assert contract["exhaustive"] is True
    layers = [name.strip() for line in contract["layers"] for name in line.split("|")]
    assert set(layers) == there - {"__init__"} - set(contract["exhaustive_ignores"])
    assert len(layers) == len(set(layers))


def test_every_folder_of_code_is_a_package() -> None:
    folders = {module.parent for module in MODULES}

    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_every_module_says_what_it_is_for() -> None:
    for module in MODULES:
        docstring = ast.get_docstring(ast.parse(module.read_text("utf-8")))

        assert docstring is not None, module
        sentence = docstring.splitlines()[0]
        assert sentence.endswith((".", ":")), (module, sentence)


def test_no_module_names_a_path_of_a_machine() -> None:
    for module in MODULES:
        assert MACHINE_PATH.findall(module.read_text("utf-8")) == [], module


def test_no_file_names_a_registry() -> None:
    folders = ("src", "tests", "docs", "scripts", "benchmarks", ".github")
    files = [path for path in REPOSITORY.iterdir() if path.is_file()]
    files += [path for folder in folders for path in (REPOSITORY / folder).rglob("*")]

    for path in files:
        if path.suffix in TEXT_SUFFIXES or path.name == "Makefile":
            assert REGISTRY.findall(path.read_text("utf-8")) == [], path


def test_the_patterns_find_what_they_look_for() -> None:
    for text in ("pypi" + ".org/simple", "registry." + "npmjs" + ".org", "PYPI" + ".ORG"):
        assert REGISTRY.search(text)
    for text in ("'/" + "home/ann/x'", " /" + "work/main", "(/" + "tmp/a.log)"):
        assert MACHINE_PATH.search(text)
    for text in ("~/.config/plait", "a/tmp/b", "https://example.com/home/x", "/mcp", "tmp/x"):
        assert not MACHINE_PATH.search(text)
        assert not REGISTRY.search(text)
