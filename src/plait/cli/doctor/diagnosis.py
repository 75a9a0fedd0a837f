"""All findings of `plait doctor`, in the order of the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from plait.cli.doctor.auth import check_auth
from plait.cli.doctor.costs import Cost, check_cost, check_server_cost, cost_of
from plait.cli.doctor.findings import (
    Detail,
    Examined,
    Finding,
    findings_for,
    findings_from_problems,
)
from plait.cli.doctor.names import check_names
from plait.cli.doctor.options import check_options, check_policy
from plait.cli.doctor.schemas import check_schemas
from plait.cli.doctor.survey import Survey, survey_of
from plait.cli.terminal import count_label, some_of
from plait.client.catalog.lock.drift import server_drift
from plait.client.catalog.lock.entries import LockedServer, Lockfile, identity_of
from plait.client.config.read import ClientConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The findings about a configuration, its servers, and their tools."""

    configuration: Sequence[Finding] = ()
    servers: Mapping[str, Sequence[Finding]]
    """By server, in the order of the configuration."""

    together: Sequence[Finding] = ()
    """Findings about the tools of all servers."""

    cost: Cost

    @property
    def findings(self) -> list[Finding]:
        """All findings."""
        by_server = [finding for findings in self.servers.values() for finding in findings]
        return [*self.configuration, *by_server, *self.together]


def diagnose(
    config: ClientConfig,
    examined: Sequence[Examined],
    known: Iterable[str] | None = None,
    more: Sequence[Finding] = (),
) -> Diagnosis:
    """Run all checks.

    `known` are the servers of the configuration, if only some were examined; `more` are additional
    findings about the configuration.
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


def check_lock(lockfile: Lockfile, examined: Sequence[Examined], folder: Path) -> Iterator[Finding]:
    """Compare the tools of every server that listed them with the lockfile in this folder."""
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
        yield server.finding("warn", "drift", message, fix, details)
