"""The page about backends names every variable, and the settings of the pipes as they are."""

from __future__ import annotations

from dataclasses import fields

from plait.reasoning.backends.http import PIPE_SETTINGS, PipeNames
from plait.reasoning.backends.settings import VARIABLES
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "reference" / "reasoning-backends.md").read_text()


def test_every_variable_that_is_read_is_described() -> None:
    read = (
        {*VARIABLES} | {f"PIPE_{field.name.upper()}" for field in fields(PipeNames)} | {"PIPE_GOT"}
    )

    assert len(read) > 25
    assert {name for name in read if f"`{name}`" not in PAGE} == set()


def test_the_pipes_are_described_as_they_are() -> None:
    for mode, settings in PIPE_SETTINGS.items():
        shown = "the steps of a graph" if mode.startswith("got_") else mode
        assert f"| {shown} | {settings.temperature} | {settings.max_tokens} |" in PAGE
    for mode in ("linear", "tree", "divergent", "reflection", "auto", "backtracking"):
        assert f"| `PIPE_{mode.upper()}` | `{getattr(PipeNames(), mode)}` |" in PAGE
