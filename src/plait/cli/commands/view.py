"""`plait view`: look at runs, servers, reasoning sessions and reports in a browser."""

from __future__ import annotations

import asyncio
import os
import webbrowser
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from plait.cli.base import ExampleCommand, repeatable, settings_of
from plait.cli.terminal import print_aside
from plait.errors import ConfigError

if TYPE_CHECKING:
    from plait.client.config.read import ClientConfig
    from plait.html.elements import Html
    from plait.reasoning.storage.port import Storage
    from plait.verification.results import CaseResult
    from plait.viewer.connected import CheckFinding, ConnectedServers
    from plait.viewer.sections import ReportLine

DEFAULT_PORT = 7411


@click.command(cls=ExampleCommand)
@click.argument("paths", metavar="[PATH]…", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--db",
    metavar="PATH|URL",
    help="The reasoning database [default: $DATABASE_PATH, else the one of the reasoning server].",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="The port; 0 takes a free one.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@repeatable("--allowed-host", "names", "NAME", "A host name under which others reach the viewer")
@click.option("--open", "opens", is_flag=True, help="Open it in the browser.")
@click.option("--allow-calls", is_flag=True, help="Allow calls of tools from the pages.")
@click.option("--demo", is_flag=True, help="Show five small servers, and an agent that uses them.")
@click.pass_context
def view(
    ctx: click.Context,
    paths: tuple[Path, ...],
    db: str | None,
    port: int,
    host: str,
    names: tuple[str, ...],
    opens: bool,
    allow_calls: bool,
    demo: bool,
) -> None:
    """Look at runs, servers, reasoning sessions and reports in a browser.

    PATHs are trace files, and folders with traces and verification reports; by
    default this folder. Pages follow what they show: a run that goes on, a
    session that grows, a report that is being made.

    With --config, the servers of an mcp.json are connected and shown too; their
    tools can be called with --allow-calls, under the policy of the configuration.

    The printed address contains a token of this launch; without it nothing is shown.

    Examples:
        plait view                            traces and reports of this folder
        plait view traces/ --open
        plait view --db reasoning.db
        plait view --config mcp.json --allow-calls
        plait view --demo --open              kill servers of a running agent
    """
    from plait.viewer.app import ViewerOptions, open_viewer

    with ExitStack() as stack:
        if demo:
            if paths or db or settings_of(ctx).config or allow_calls:
                raise click.UsageError("--demo shows its own servers and runs, and allows calls")
            from plait.viewer.demo import Demo

            folder = stack.enter_context(TemporaryDirectory(prefix="plait-view-"))
            shown = Demo(Path(folder).resolve())
            options = ViewerOptions(paths=[shown.traces], servers=shown.servers, home="/servers")
        else:
            store, name = _store(db) or (None, "")
            options = ViewerOptions(
                paths=paths or (Path(),),
                sessions=store,
                database=name,
                servers=_servers(ctx, allow_calls=allow_calls),
                reports=ReportFiles(),
            )
        try:
            viewer = open_viewer(replace(options, host=host, port=port, names=names))
        except OSError as error:
            other = "choose another one with --port" if port else "choose another one with --host"
            text = f"cannot listen on {host}:{port}: {error.strerror}; {other}"
            raise ConfigError(text) from error
        click.echo(viewer.address_with(viewer.app.token))
        if not settings_of(ctx).quiet:
            print_aside("note", "Ctrl-C ends it", colour="cyan")
        if opens:
            webbrowser.open(viewer.address_with(viewer.app.take_ticket()))
        asyncio.run(viewer.serve())


def _store(db: str | None) -> tuple[Storage, str] | None:
    """Return the sessions of a database and its name; the default one only if it exists."""
    from plait.reasoning.backends.settings import DEFAULT_DATABASE

    named = db or os.environ.get("DATABASE_PATH")
    default = DEFAULT_DATABASE.expanduser()
    if named is None and not default.exists():
        return None  # Without the packages of the reasoning server too.
    from plait.reasoning.storage.database import database_from_text

    database = database_from_text(named or str(default))
    if database.is_sqlite and not Path(str(database)).exists():
        if db is not None:
            raise ConfigError(f"there is no database at {database}")
        return None
    from plait.reasoning.storage.sql import SqlStorage

    return SqlStorage(database), str(database)


def _servers(ctx: click.Context, *, allow_calls: bool) -> ConnectedServers | None:
    """Return the servers of a configuration that was named; others are not started."""
    from plait.cli.found_config import ENVIRONMENT_VARIABLE

    if settings_of(ctx).config is None and not os.environ.get(ENVIRONMENT_VARIABLE):
        if allow_calls:
            raise click.UsageError("--allow-calls needs servers: name them with --config mcp.json")
        return None
    from plait.cli import session
    from plait.viewer.connected import ConnectedServers

    config = session.read_configuration(ctx)
    named = settings_of(ctx).config
    command = ("plait", "--config", str(named)) if named else ("plait",)
    check = partial(_check, config)
    return ConnectedServers(
        _shown(config),
        allow_calls=allow_calls,
        check=check,
        command=command,
        reread=lambda: _shown(session.read_configuration(ctx, may_ask=False)),
    )


def _shown(config: ClientConfig) -> ClientConfig:
    """Return the configuration for pages, which show complete results, and list every tool."""
    servers = {name: replace(one, required=False) for name, one in config.servers.items()}
    options = {key: one for key, one in config.options.items() if key not in _UNUSED}
    return replace(config, servers=servers, options=options)


_UNUSED = frozenset({"result_budget", "defer", "on_connection_error"})


async def _check(config: ClientConfig) -> Sequence[CheckFinding]:
    """Check all servers as `plait doctor` does, in connections of its own."""
    from plait.cli import session
    from plait.cli.diagnosis import diagnose, examine_servers, lock_findings
    from plait.client.toolbox import Toolbox
    from plait.viewer.connected import CheckFinding

    narrowed = session.narrowed(config, (), heal=False)
    async with Toolbox(session.unfiltered(narrowed)) as box:
        seen = await examine_servers(narrowed, box)
    diagnosis = diagnose(narrowed, seen, config.servers, lock_findings(narrowed, seen))
    return [
        CheckFinding(level=one.level, message=one.message, server=one.server, fix=one.fix)
        for one in diagnosis.findings
    ]


class ReportFiles:
    """Renders the reports of verification for the viewer, which does not import it."""

    def find(self, path: Path) -> Sequence[Path]:
        """Return the folders with results at a path, without those too large to be read."""
        from plait.verification.results import RESULTS_FILE
        from plait.viewer.library import MAX_FILE_BYTES

        if path.is_file():
            return [path.parent] if path.name == RESULTS_FILE else []
        root = path.resolve()
        found = sorted(path.rglob(RESULTS_FILE))
        inside = (file for file in found if file.is_file() and file.resolve().is_relative_to(root))
        return [file.parent for file in inside if file.stat().st_size <= MAX_FILE_BYTES]

    def version(self, report: Path) -> str:
        """Return the size and the time of the results."""
        from plait.verification.results import RESULTS_FILE

        try:
            found = (report / RESULTS_FILE).stat()
        except OSError:  # deleted meanwhile
            return f"{report} gone"
        return f"{report} {found.st_size} {found.st_mtime_ns}"

    def summary(self, report: Path) -> ReportLine:
        """Count runs as the report counts them."""
        from plait.verification.report import pass_rate
        from plait.viewer.sections import ReportLine

        results = self._results(report)
        rate = pass_rate("all", results)
        return ReportLine(
            suite=self._suite(report),
            changed=self._changed(report),
            models=sorted({one.variant for one in results}),
            passed=rate.passed,
            failed=rate.failed,
            errors=rate.errors,
            low=rate.interval.low,
            high=rate.interval.high,
        )

    def body(self, report: Path) -> Html:
        """Render the results, as far as there are any."""
        from plait.html.elements import h
        from plait.verification.html_report import report_section

        name, results = self._suite(report), self._results(report)
        if not results:
            return h("p", f"{name} has no results yet.", class_="empty")
        return report_section(name, results, folder=report, changed=self._changed(report))

    @staticmethod
    def _suite(report: Path) -> str:
        """Return the name of the suite; that of the folder while the report is being made."""
        from plait.verification.report import suite_of_junit

        file = report / "junit.xml"
        with suppress(OSError):
            if file.is_file():  # opening a FIFO would wait
                return suite_of_junit(file) or report.resolve().name
        return report.resolve().name

    @staticmethod
    def _changed(report: Path) -> float:
        from plait.verification.results import RESULTS_FILE

        with suppress(OSError):
            return (report / RESULTS_FILE).stat().st_mtime
        return 0.0

    @staticmethod
    def _results(report: Path) -> Sequence[CaseResult]:
        """Return the results so far; a run that just began has none."""
        from plait.verification.results import read_results

        try:
            return read_results(report)
        except ConfigError:
            return []
