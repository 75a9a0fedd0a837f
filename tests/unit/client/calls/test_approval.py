"""What a person can answer about a call."""

from __future__ import annotations

from collections.abc import Mapping
from threading import get_ident
from typing import Any

import pytest

from plait.client.calls.approval import Approval, PolicyCheck
from plait.client.calls.tool_call import ToolCall
from plait.client.config.policy import Policy, PolicyDecision, PolicyRule, PolicyTool
from plait.errors import ConfigError


@pytest.mark.parametrize(
    ("answer", "approval"),
    [
        (True, Approval("approve")),
        (False, Approval("reject")),
        (Approval("approve"), Approval("approve")),
        ({"decision": "approve"}, Approval("approve")),
        ({"type": "approve"}, Approval("approve")),
        ({"decisions": [{"type": "approve"}]}, Approval("approve")),
        ({"decision": "edit", "args": {"a": 1}}, Approval("edit", {"a": 1})),
        (
            {"decisions": [{"type": "edit", "edited_action": {"name": "x", "args": {}}}]},
            Approval("edit", {}),
        ),
        ({"decision": "reject"}, Approval("reject")),
        ({"type": "reject", "message": "no"}, Approval("reject", message="no")),
    ],
)
def test_clear_answers_are_understood(answer: Any, approval: Approval) -> None:
    assert Approval.read(answer) == approval


@pytest.mark.parametrize(
    "answer",
    [
        *(None, "approve", "yes", 1, 0, [], {}, [True]),
        *({"decision": True}, {"decision": "Approve"}, {"decision": "edit"}),
        {"decision": "edit", "args": []},
        *({"action": "accept"}, {"responses": {}}, {"decisions": []}),
        {"decisions": [{"type": "approve"}, {"type": "approve"}]},
        {"decision": "reject", "type": "approve", "decisions": None} | {"decision": "perhaps"},
    ],
)
def test_nothing_else_is_an_approval(answer: Any) -> None:
    assert Approval.read(answer) is None


@pytest.mark.parametrize(
    "arguments", [("yes",), ("edit",), ("approve", {"a": 1}), ("reject", {"a": 1})]
)
def test_approvals_that_make_no_sense_cannot_be_made(arguments: Any) -> None:
    with pytest.raises(ConfigError):
        Approval(*arguments)


class Watched(Policy):
    """Notes the threads in which it decides."""

    def decide(
        self, tool: PolicyTool, arguments: Mapping[str, Any] | None = None
    ) -> PolicyDecision:
        threads.append(get_ident())
        return super().decide(tool, arguments)


threads: list[int] = []


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("arguments", "in_loop"),
    [
        ({"path": "/a"}, True),
        ({"paths": ["/a"] * 900}, True),
        ({"paths": ["/a"] * 1_100}, False),
        ({"paths": [{"path": ["/a"] * 20}] * 90}, False),
        ({"text": "x" * 100_001}, False),
    ],
)
async def test_large_arguments_are_read_beside_the_loop(
    arguments: dict[str, Any], in_loop: bool
) -> None:
    threads.clear()
    policy = Watched(rules=(PolicyRule(do="allow", tool="*"),))

    await PolicyCheck(policy).permit(
        ToolCall(server="server", tool="tool", arguments=arguments), None
    )

    assert [one == get_ident() for one in threads] == [in_loop]
