"""What of a policy is about none of the tools that there are."""

from __future__ import annotations

from collections.abc import Iterator

from plait.cli.doctor.findings import Finding
from plait.cli.doctor.survey import Survey
from plait.client.config.policy import Policy


def check_policy(survey: Survey) -> Iterator[Finding]:
    """Find the rules that decide about nothing, once the tools of all servers are known."""
    policy = survey.options.get("policy")
    if not isinstance(policy, Policy) or not survey.covers(survey.known):
        return
    tools = [tool for listed in survey.offered.values() for tool in listed]
    for number, problem in policy.idle_rules(tools):
        yield Finding(
            server=None,
            level="warn",
            code="policy_rule",
            message=f"rule {number} of {policy.title} ({policy.rules[number - 1]}): {problem}",
            fix="correct it, move it, or take it out; what holds: plait policy check",
        )
