"""Examination of servers by `plait doctor`, and all findings in the order of the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

from plait._support.gather import gather_all
from plait.cli.doctor.auth import check_auth, look_at_auth
from plait.cli.doctor.findings import (
    Detail,
    Examined,
    Finding,
    findings_for,
    findings_from_config_error,
    findings_from_problems,
)
from plait.cli.doctor.launch import Launch
from plait.cli.doctor.tools import (
    Cost,
    Survey,
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
from plait.client.catalog.lock.entries import LockedServer, Lockfile, read_lockfile
from plait.client.catalog.lock.identity import identity_of
from plait.client.config.read import ClientConfig
from plait.client.config.servers import ServerConfig
from plait.client.options import lock_mode, lockfile_path
from plait.client.toolbox import Toolbox
from plait.errors import ConfigError, PlaitError, ProtocolError

_ROUND_TRIPS = 5
"""Enough for a median that one outlier does not move."""


async def examine_servers(config: ClientConfig, box: Toolbox) -> list[Examined]:
    """List the tools of every server, measure a few round trips, and look at its login."""
    written = _written(config.source)

    async def examine(name: str, server: ServerConfig) -> Examined:
        listed, round_trips, error = None, (), None
        launch = Launch.of(server)
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
    try:
        return Path(source).read_text(encoding="utf-8") if source is not None else ""
    except (OSError, ValueError):
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
    return Diagnosis(
        examined=examined,
        configuration=[finding for finding in about if finding.server not in config.servers],
        servers={
            server.name: [
                *(finding for finding in about if finding.server == server.name),
                *findings_for(server),
                *check_auth(server),
                *_tool_findings(server.name, survey, cost),
            ]
            for server in examined
        },
        together=[*check_names(survey), *check_cost(cost)],
        cost=cost,
    )


def _tool_findings(server: str, survey: Survey, cost: Cost) -> Iterable[Finding]:
    if server in survey.listed:
        yield from check_server_cost(server, survey, cost)
        yield from check_schemas(server, survey.offered[server])


def lock_findings(config: ClientConfig, examined: Sequence[Examined]) -> Sequence[Finding]:
    """Compare the listed tools with the lockfile, if there is one."""
    path = lockfile_path(config.options, config.source)
    if not path.exists() and lock_mode(config.options) != "block":
        return []
    try:
        return list(_check_lock(read_lockfile(path), examined, path.parent))
    except ConfigError as error:
        return findings_from_config_error(error)


def _check_lock(
    lockfile: Lockfile, examined: Sequence[Examined], folder: Path
) -> Iterator[Finding]:
    for server in examined:
        if server.listed is None:
            continue
        identity = identity_of(server.config, server.status.server_info, folder)
        now = LockedServer.of(identity, server.listed)
        drift = server_drift(server.name, lockfile.servers.get(server.name), now)
        if not drift:
            verb = "matches" if len(server.listed) == 1 else "match"
            tools = count_label(len(server.listed), "tool")
            yield server.finding("ok", "locked", f"{tools} {verb} the lockfile")
            continue
        message = f"differs from the lockfile: {some_of([change.headline for change in drift])}"
        fix = f"show the changes: plait lock --check {server.name}"
        details = [Detail(text=change.text, tool=change.tool and change.where) for change in drift]
        yield server.finding("warn", "drift", message, fix, *details)
