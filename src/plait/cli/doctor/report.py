"""The printed report of `plait doctor`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import click
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from plait.cli.doctor.diagnosis import Diagnosis
from plait.cli.doctor.findings import Detail, Examined, Finding
from plait.cli.terminal import count_label, print_rich, visible

_MARKS: Final = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "error": ("✗", "red")}
_REMARK: Final = ("·", "dim")
_REMARKS: Final = ("schema_", "stderr", "renamed")
"""Prefixes of the codes of neutral findings."""


def print_diagnosis(diagnosis: Diagnosis, examined: Sequence[Examined], *, verbose: bool) -> None:
    """Print every section and a summary; `verbose` shows every case."""
    if diagnosis.configuration:
        print_section("configuration", "", diagnosis.configuration, verbose=verbose)
    for server in examined:
        findings = diagnosis.servers[server.name]
        stderr = server.status.stderr_tail if verbose else ()
        print_section(server.name, _facts(server), findings, verbose=verbose, stderr=stderr)
    if diagnosis.together:
        print_section("all tools", "", diagnosis.together, verbose=verbose)
    print_summary(examined, diagnosis.findings)


def print_section(
    title: str,
    facts: str,
    findings: Iterable[Finding],
    *,
    verbose: bool = False,
    stderr: Iterable[str] = (),
) -> None:
    """Print findings under a title, followed by an empty line."""
    print_rich(Text.assemble((title, "bold"), (f"  {facts}" if facts else "", "dim")))
    for finding in findings:
        message = visible(finding.message).removeprefix(f"{finding.server}: ")
        print_rich(_hanging(*_mark(finding), message))
        if finding.fix:
            fix = Text.assemble(("fix: ", "cyan"), visible(finding.fix))
            print_rich(Padding(fix, (0, 0, 0, 6)))
        for detail in finding.details if verbose else ():
            print_rich(Padding(Text(_case(detail), "dim"), (0, 0, 0, 6)))
    for line in stderr:
        click.echo(f"    | {visible(line)}")
    click.echo()


def print_summary(examined: Sequence[Examined], findings: Sequence[Finding]) -> None:
    """Print how many servers are ready, and how many problems there are."""
    ready = sum(server.status.state == "ready" for server in examined)
    counts = [
        count_label(number, noun)
        for level, noun in (("error", "error"), ("warn", "warning"))
        if (number := sum(finding.level == level for finding in findings))
    ]
    servers = f"{ready} of {count_label(len(examined), 'server')} ready; " if examined else ""
    click.echo(f"{servers}{', '.join(counts) or 'nothing to fix'}")


def _facts(server: Examined) -> str:
    status = server.status
    info = status.server_info or {}
    about = " ".join(str(info[key]) for key in ("name", "version") if info.get(key))
    tools = None if status.tool_count is None else count_label(status.tool_count, "tool")
    return visible(" · ".join(fact for fact in (status.transport, about, tools) if fact))


def _mark(finding: Finding) -> tuple[str, str]:
    if finding.level == "ok" and finding.code.startswith(_REMARKS):
        return _REMARK
    return _MARKS[finding.level]


def _case(detail: Detail) -> str:
    profiles = f" ({', '.join(detail.profiles)})" if detail.profiles else ""
    return visible(f"{detail.tool}: {detail.text}{profiles}" if detail.tool else detail.text)


def _hanging(mark: str, style: str, message: str) -> RenderableType:
    grid = Table.grid(padding=0)
    grid.add_column(width=4)
    grid.add_column(overflow="fold")
    grid.add_row(Text(f"  {mark} ", style), message)
    return grid
