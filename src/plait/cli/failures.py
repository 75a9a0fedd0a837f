"""Errors as printed on the terminal: what happened, and how to fix it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

import click

from plait._support.redact import Redactor
from plait.cli.advice import advice_for
from plait.cli.exits import ArgumentError
from plait.cli.options import settings_of
from plait.cli.terminal import print_aside, visible, wrapped
from plait.client.config.secrets import secret_values
from plait.client.config.servers import ServerConfig
from plait.errors import ConfigError, PlaitError, Problem


@dataclass(frozen=True, slots=True)
class Block:
    """An error as printed."""

    headline: str
    details: tuple[str, ...] = ()
    hint: str | None = None


def show_failure(ctx: click.Context, error: Exception) -> None:
    """Print an error on stderr as a short block, with the traceback under `-v`."""
    settings = settings_of(ctx)
    if settings.verbosity:
        click.echo(_traceback(error, settings.servers.values()), err=True)
    server = error.server if isinstance(error, PlaitError) else None
    block = block_for(error, settings.servers.get(server or ""))
    print_aside("error", block.headline, colour="red")
    for line in block.details:
        click.echo(wrapped(f"  {visible(line)}", sys.stderr, indent=4), err=True)
    if block.hint:
        print_aside("hint", block.hint, colour="cyan")


def _traceback(error: Exception, servers: Iterable[ServerConfig]) -> str:
    """Format the traceback, with secrets redacted."""
    import traceback

    redact = Redactor(secret for server in servers for secret in secret_values(server))
    return redact("".join(traceback.format_exception(error)))


def block_for(error: Exception, server: ServerConfig | None = None) -> Block:
    """Format an error; every problem of a configuration has its own line."""
    match error:
        case ConfigError() if error.problems:
            return _block_for_problems(error.problems)
        case PlaitError():
            headline, *details = str(error).splitlines() or [type(error).__name__]
            return Block(headline, tuple(details), advice_for(error, server).fix)
        case ArgumentError():
            return Block(str(error), hint=error.hint)
        case OSError() if error.filename is not None:
            return Block(f"{error.filename}: {error.strerror}")
        case _:
            name = type(error).__name__
            return Block(f"internal error: {name}: {error}", hint="-v shows the traceback")


def _block_for_problems(problems: tuple[Problem, ...]) -> Block:
    if len(problems) == 1:
        (problem,) = problems
        return Block(_line(problem, problem.file), hint=problem.suggestion)
    files = {problem.file for problem in problems}
    shared = files.pop() if len(files) == 1 else None
    details: list[str] = []
    for problem in problems:
        details.append(_line(problem, None if shared else problem.file))
        if problem.suggestion:
            details.append(f"    fix: {problem.suggestion}")
    return Block(f"{len(problems)} problems in {shared or 'the configuration'}", tuple(details))


def _line(problem: Problem, file: str | None) -> str:
    return ": ".join(part for part in (file, problem.path, problem.message) if part)
