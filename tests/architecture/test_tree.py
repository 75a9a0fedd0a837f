"""The tree is the architecture: its folders are the layers, and its files stay small."""

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

MOST_LINES = 600


_WORD = r"[A-Za-z0-9_.-]"
REGISTRY = re.compile(
    r"(?:p[y]pi|python[h]osted|n[p]mjs|crates|anaconda|rubygems|jsr)\.(?:org|com|io)\b",
    re.IGNORECASE,
)
MACHINE_PATH = re.compile(rf"(?<!{_WORD})(?<!/)/(?:home|root|Users|work|mnt|opt|tmp)/{_WORD}+")


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


def test_no_module_is_too_long() -> None:
    lengths = {module: len(module.read_text("utf-8").splitlines()) for module in MODULES}

    assert {module: length for module, length in lengths.items() if length > MOST_LINES} == {}


def test_no_module_names_a_registry_or_a_path_of_a_machine() -> None:
    for module in MODULES:
        text = module.read_text("utf-8")

        assert REGISTRY.findall(text) == [], module
        assert MACHINE_PATH.findall(text) == [], module


def test_the_patterns_find_what_they_look_for() -> None:
    for text in ("pypi" + ".org/simple", "registry." + "npmjs" + ".org", "PYPI" + ".ORG"):
        assert REGISTRY.search(text)
    for text in ("'/" + "home/ann/x'", " /" + "work/main", "(/" + "tmp/a.log)"):
        assert MACHINE_PATH.search(text)
    for text in ("~/.config/plait", "a/tmp/b", "https://example.com/home/x", "/mcp", "tmp/x"):
        assert not MACHINE_PATH.search(text)
        assert not REGISTRY.search(text)
