"""Everything `plait doctor` finds, in the order in which it is shown."""

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
from plait.client.catalog.lock.entries import LockedServer, Lockfile
from plait.client.catalog.lock.identity import identity_of
from plait.client.config.read import ClientConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The findings about a configuration, its servers, and their tools."""

    configuration: Sequence[Finding] = ()

    servers: Mapping[str, Sequence[Finding]]
    """By server, in the order of the configuration."""

    together: Sequence[Finding] = ()
    """About the tools of all servers."""

    cost: Cost

    @property
    def findings(self) -> list[Finding]:
        """All of them."""
        by_server = [finding for findings in self.servers.values() for finding in findings]
        return [*self.configuration, *by_server, *self.together]


def diagnose(
    config: ClientConfig,
    seen: Sequence[Examined],
    known: Iterable[str] | None = None,
    more: Sequence[Finding] = (),
) -> Diagnosis:
    """Make findings of what was seen.

    `known` names the servers of the configuration, where not all of them were examined; `more`
    are findings that were made elsewhere.
    """
    survey = survey_of(config, seen, known)
    cost = cost_of(survey)
    about = [
        *findings_from_problems(config.warnings, "warn", config.servers),
        *check_options(survey),
        *more,
        *check_policy(survey),
    ]
    return Diagnosis(
        configuration=[finding for finding in about if finding.server not in config.servers],
        servers={
            one.name: [
                *(finding for finding in about if finding.server == one.name),
                *findings_for(one),
                *check_auth(one),
                *_tool_findings(one.name, survey, cost),
            ]
            for one in seen
        },
        together=[*check_names(survey), *check_cost(cost)],
        cost=cost,
    )


def _tool_findings(server: str, survey: Survey, cost: Cost) -> Iterable[Finding]:
    if server in survey.listed:
        yield from check_server_cost(server, survey, cost)
        yield from check_schemas(server, survey.offered[server])


def check_lock(lockfile: Lockfile, seen: Sequence[Examined], folder: Path) -> Iterator[Finding]:
    """Compare the tools of every server that listed them with the lockfile in this folder."""
    for one in seen:
        if one.listed is None:
            continue
        identity = identity_of(one.config, one.status.server_info, folder)
        now = LockedServer.of(identity, one.listed)
        drift = server_drift(one.name, lockfile.servers.get(one.name), now)
        if not drift:
            yield one.finding("ok", "locked", f"{count_label(len(one.listed), 'tool')} as locked")
            continue
        headlines = [found.headline for found in drift]
        yield one.finding(
            "warn",
            "drift",
            f"not as it was locked: {some_of(headlines)}",
            f"look at it: plait lock --check {one.name}",
            [Detail(text=found.text, tool=found.tool and found.where) for found in drift],
        )
