"""What `plait` says when it is called without a command: what is here, and what to do next."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from plait._version import __version__
from plait.cli.base import LazyGroup, settings_of
from plait.cli.found_config import find_config
from plait.cli.terminal import some_of, visible, wrapped
from plait.cli.trust import preview_of
from plait.errors import ConfigError
from plait.html.pieces import count_label
from plait.models.weights import usable_weights


def print_greeting(ctx: click.Context) -> None:
    """Print what is here and what to do next; nothing is started, read further or contacted."""
    has_servers, servers = _servers_here(settings_of(ctx).config)
    has_model, model = _model_here(os.environ)
    assert isinstance(ctx.command, LazyGroup)  # noqa: S101 - the group that has the commands
    lines = [
        f"plait {__version__} gives AI agents their MCP tools, and never drops them.",
        "",
        f"  servers  {servers}",
        f"  model    {model}",
        "",
        "Next:",
        *_next_steps(has_servers=has_servers, has_model=has_model),
        "",
        "Commands:",
        *(f"  {name.ljust(8)} {', '.join(group)}" for name, group in ctx.command.headings.items()),
        "",
        "plait --help says what each does, plait COMMAND --help explains one.",
    ]
    for line in lines:
        indent = 21 if line.startswith("  plait") else 11 if line.startswith("  ") else 0
        click.echo(wrapped(line, sys.stdout, indent=indent))


def _servers_here(named: str | None) -> tuple[bool, str]:
    try:
        path = find_config(named).path
    except ConfigError:
        return False, "no mcp.json"
    here = Path.cwd()
    shown = path.relative_to(here) if path.is_relative_to(here) else path
    try:
        names = [name for name, _ in preview_of(path).servers if name not in {"options", "inputs"}]
    except ConfigError:
        return True, f"{visible(str(shown))} has problems: plait doctor"
    label = f"{visible(str(shown))}: {count_label(len(names), 'server')}"
    return True, f"{label} ({some_of([visible(name) for name in names], 5)})" if names else label


def _model_here(environ: Mapping[str, str]) -> tuple[bool, str]:
    if model := environ.get("PLAIT_MODEL", "").strip():
        return True, f"{visible(model)} (PLAIT_MODEL)"
    names = [name for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY") if environ.get(name)]
    if names:
        return True, f"the key {names[0]} is set"
    weights = usable_weights(environ)
    if weights is not None:
        return True, f"local:{weights.name}"
    return False, "no key, and no local model"


def _next_steps(*, has_servers: bool, has_model: bool) -> Iterator[str]:
    if not has_servers:
        yield "  plait demo         see servers killed, and calls go on (15 seconds)"
        yield "  plait init --demo  servers and a scripted model to try things with"
        yield "  plait init         a starter, or the servers of your editor"
        return
    yield "  plait servers      are they all reachable?"
    yield "  plait tools        what can they do?"
    if has_model:
        yield "  plait chat         an agent has their tools"
    else:
        yield "  plait run TASK     an agent has their tools; it says how to get a model"
    yield "  plait view         all of it in a browser"
