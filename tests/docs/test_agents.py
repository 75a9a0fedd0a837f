"""The table of settings and engines has a row for every field, and an answer for every engine."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields

from plait import AgentConfig, ModelConfig
from plait.agents import AgentMiddlewareConfig, AgentPort
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "agents" / "index.md").read_text()
ROWS = {
    name: cells
    for names, cells in re.findall(r"^\| (`(?:arun|\w+Config).+?`) \| (.+) \|$", PAGE, re.MULTILINE)
    for name in re.findall(r"`([^`]+)`", names)
}


def has_row(name: str) -> bool:
    """Say whether a field has a row, or its parts have."""
    return any(row == name or re.match(rf"{re.escape(name)}[\[.]", row) for row in ROWS)


def test_every_setting_of_a_run_has_a_row_in_the_table_of_engines() -> None:
    asked = [name for name in inspect.signature(AgentPort.arun).parameters if name != "self"]
    names = [
        *(f"arun({name})" for name in asked),
        *(f"AgentConfig.{field.name}" for field in fields(AgentConfig)),
        *(f"ModelConfig.{name}" for name in ModelConfig.model_fields),
        *(f"AgentMiddlewareConfig.{name}" for name in AgentMiddlewareConfig.model_fields),
    ]

    assert [name for name in names if not has_row(name)] == []


def test_every_row_of_the_table_of_engines_names_a_field_and_every_engine() -> None:
    models = {"AgentConfig": AgentConfig, "ModelConfig": ModelConfig}
    for name, cells in ROWS.items():
        kind, _, field = name.partition(".")
        if kind in models:
            assert field.partition("[")[0] in models[kind].__annotations__, name
        elif kind == "AgentMiddlewareConfig":
            part, _, inner = field.partition(".")
            within = AgentMiddlewareConfig.model_fields[part].annotation
            assert not inner or inner in getattr(within, "model_fields"), name  # noqa: B009
        assert cells.count(" | ") == 3, name
