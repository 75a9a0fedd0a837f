"""Examination of servers by `plait doctor`, and all findings in the order of the report."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from plait._support.gather import gather_all
from plait._support.threads import in_thread
from plait.cli.doctor.findings import (
    Detail,
    Examined,
    Finding,
    check_auth,
    findings_for,
    findings_from_config_error,
    findings_from_problems,
    look_at_auth,
)
from plait.cli.doctor.tools import (
    Cost,
    check_cost,
    check_names,
    check_options,
    check_policy,
    check_schemas,
    check_server_cost,
    cost_of,
    survey_of,
)
from plait.cli.terminal import count_label, in_background, some_of
from plait.client.catalog.lock.drift import server_drift
from plait.client.catalog.lock.entries import LockedServer, read_lockfile
from plait.client.catalog.lock.identity import identity_of
from plait.client.config.read import ClientConfig
from plait.client.config.servers import ServerConfig, StdioServer
from plait.client.connections.status import ServerStatus
from plait.client.options import lock_mode, lockfile_path
from plait.client.toolbox import Toolbox
from plait.client.transports.process import descendants_of
from plait.errors import ConfigError, PlaitError, ProtocolError

_ROUND_TRIPS = 5
"""Enough for a median that one outlier does not move."""


async def examine_servers(config: ClientConfig, box: Toolbox) -> list[Examined]:
    """List the tools of every server, measure a few round trips, and look at its login."""
    written = _written(config.source)

    async def examine(name: str, server: ServerConfig) -> Examined:
        listed, round_trips, error = None, (), None
        launch = Launch.for_server(server)
        watching = None if launch is None else launch.watch(lambda: box.status()[name])
        try:
            async with nullcontext() if watching is None else in_background(watching):
                tools = tuple(await box.tools(name))
            with suppress(ProtocolError):  # a server that refuses pings still has its tools
                round_trips = [await box.ping(name) for _ in range(_ROUND_TRIPS)]
            listed = tools
        except PlaitError as failure:
            error = failure
        auth = await look_at_auth(name, server, error, written)
        return Examined(
            config=server,
            status=box.status()[name],
            listed=listed,
            round_trips=round_trips,
            error=error,
            auth=auth,
            launch=launch,
        )

    return await gather_all(examine(*item) for item in config.servers.items())


def _written(source: str | None) -> str:
    """Return the text of the configuration, to find secrets in it."""
    with suppress(OSError, ValueError):
        return Path(source).read_text(encoding="utf-8") if source is not None else ""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The findings about a configuration, its servers, and their tools."""

    examined: Sequence[Examined] = ()
    configuration: Sequence[Finding] = ()
    servers: Mapping[str, Sequence[Finding]] = field(default_factory=dict[str, Sequence[Finding]])
    together: Sequence[Finding] = ()
    """Findings about the tools of all servers."""
    cost: Cost | None = None

    @property
    def findings(self) -> list[Finding]:
        """All findings."""
        by_server = [finding for findings in self.servers.values() for finding in findings]
        return [*self.configuration, *by_server, *self.together]

    def to_dict(self) -> dict[str, object]:
        """Return the diagnosis as JSON."""
        return {
            "ok": all(finding.level != "error" for finding in self.findings),
            "servers": [
                {**one.status.to_dict(), "round_trips_seconds": list(one.round_trips)}
                for one in self.examined
            ],
            "tokens": None if self.cost is None else self.cost.to_dict(),
            "findings": [finding.to_dict() for finding in self.findings],
        }


def diagnose(
    config: ClientConfig,
    examined: Sequence[Examined],
    known: Iterable[str] | None = None,
    more: Sequence[Finding] = (),
) -> Diagnosis:
    """Run all checks, and add `more` findings about the configuration.

    `known` are the servers of the configuration, if only some were examined.
    """
    survey = survey_of(config, examined, known)
    cost = cost_of(survey)
    about = [
        *findings_from_problems(config.warnings, "warn", list(config.servers)),
        *check_options(survey),
        *more,
        *check_policy(survey),
    ]
    by_server: dict[str, list[Finding]] = {}
    for server in examined:
        name = server.name
        found = [finding for finding in about if finding.server == name]
        found += [*findings_for(server), *check_auth(server)]
        if name in survey.listed:
            found += check_server_cost(name, survey, cost)
            found += check_schemas(name, survey.offered[name])
        by_server[name] = found
    return Diagnosis(
        examined=examined,
        configuration=[finding for finding in about if finding.server not in config.servers],
        servers=by_server,
        together=[*check_names(survey), *check_cost(cost)],
        cost=cost,
    )


def lock_findings(config: ClientConfig, examined: Sequence[Examined]) -> Sequence[Finding]:
    """Compare the listed tools with the lockfile, if there is one."""
    path = lockfile_path(config.options, config.source)
    if not path.exists() and lock_mode(config.options) != "block":
        return []
    try:
        lockfile = read_lockfile(path)
        found: list[Finding] = []
        for server in examined:
            if server.listed is None:
                continue
            identity = identity_of(server.config, server.status.server_info, path.parent)
            now = LockedServer.of(identity, server.listed)
            drift = server_drift(server.name, lockfile.servers.get(server.name), now)
            if drift:
                changes = some_of([change.headline for change in drift])
                message = f"differs from the lockfile: {changes}"
                fix = f"show the changes: plait lock --check {server.name}"
                details = [Detail(text=one.text, tool=one.tool and one.where) for one in drift]
                found.append(server.finding("warn", "drift", message, fix, *details))
            else:
                verb = "matches" if len(server.listed) == 1 else "match"
                tools = count_label(len(server.listed), "tool")
                found.append(server.finding("ok", "locked", f"{tools} {verb} the lockfile"))
    except ConfigError as error:
        return findings_from_config_error(error)
    return found


LAUNCHERS = frozenset({"npx", "npm", "pnpm", "yarn", "bunx", "uvx", "uv", "pipx"})
"""Programs that install a server, and then start it as a child process."""

_LAUNCHER_SCRIPTS = frozenset({"npx-cli", "npm-cli"})
"""What Node runs as npx and npm, before they change the title of their process."""

_SAMPLE_SECONDS = 0.05
_SURELY_STARTED_SECONDS = 1.0
"""A child that lives as long is the server; launchers have helpers that end at once."""


class Launch:
    """Watches the process of a launcher while its server is being connected."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.watched_seconds = 0.0
        """How long the process was watched, until the server was ready or failed."""
        self.started_seconds: float | None = None
        """When the launcher had started the server; `None` if it had not."""

    @classmethod
    def for_server(cls, server: ServerConfig) -> Launch | None:
        """Watch a server that a launcher starts; `None` for others, and where there is no /proc."""
        if not isinstance(server, StdioServer) or not Path("/proc/self/task").exists():
            return None
        program = PurePath(server.command).name.removesuffix(".exe").removesuffix(".cmd")
        return cls(program) if program in LAUNCHERS else None

    async def watch(self, status: Callable[[], ServerStatus]) -> None:
        """Look at the processes it starts until the server is ready, or has failed."""
        began = time.monotonic()
        while (now := status()).state in {"idle", "connecting"}:
            self.watched_seconds = time.monotonic() - began
            if now.pid is not None:
                self._note(await in_thread(_has_started_server, now.pid))
            await asyncio.sleep(_SAMPLE_SECONDS)

    def _note(self, has_server: bool) -> None:
        started = self.started_seconds
        if started is not None and self.watched_seconds - started >= _SURELY_STARTED_SECONDS:
            return
        if not has_server:
            self.started_seconds = None
        elif started is None:
            self.started_seconds = self.watched_seconds


def _has_started_server(pid: int) -> bool:
    """Whether a descendant is no launcher: `npx` may be a script that starts the real one."""
    return not all(map(_is_launcher, descendants_of(pid)))


def _is_launcher(pid: int) -> bool:
    """Whether a process is a launcher, runs one as a script, or has ended."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ").split()
    except OSError:
        return True
    programs = {PurePath(word).stem for word in words[:2]}
    return not programs or not programs.isdisjoint(LAUNCHERS | _LAUNCHER_SCRIPTS)
