"""Asking at a terminal about calls."""

from __future__ import annotations

import asyncio
import os
import pty
import sys
from collections.abc import Iterator

import pytest

from plait.cli.questions import TerminalApproval
from plait.client.calls.approval import Approval, ApprovalRequest

pytestmark = pytest.mark.anyio

YES = Approval("approve", by="person")


def request(tool: str, **arguments: object) -> ApprovalRequest:
    return ApprovalRequest(server="files", tool=tool, arguments=arguments, reason="rule 1")


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A terminal as standard input, and the file to type into."""
    master, slave = pty.openpty()
    with os.fdopen(slave) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        yield master
    os.close(master)


async def test_always_holds_for_the_tool_and_for_those_who_wait(
    keyboard: int, capsys: pytest.CaptureFixture[str]
) -> None:
    os.write(keyboard, b"a\n")
    ask = TerminalApproval()

    several = [ask(request("write", path=str(number))) for number in range(3)]
    answers = await asyncio.gather(*several)

    assert {(one.decision, one.by) for one in answers} == {("approve", "person")}
    assert answers[0] == YES
    assert "earlier call" in (answers[1].message or "")
    assert capsys.readouterr().err.count("Call it?") == 1
    os.write(keyboard, b"n\n")
    assert (await ask(request("delete"))).decision == "reject"
    assert (await ask(request("write"))).decision == "approve"


async def test_the_end_of_what_is_typed_is_a_no(keyboard: int) -> None:
    os.write(keyboard, b"\x04")

    assert (await TerminalApproval()(request("write"))).decision == "reject"


async def test_without_a_terminal_only_yes_approves(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as nothing:  # noqa: ASYNC230, PTH123
        monkeypatch.setattr(sys, "stdin", nothing)
        refused = await TerminalApproval()(request("write"))

        approved = await TerminalApproval(yes=True)(request("write"))
    assert (approved.decision, approved.by) == ("approve", "program")
    assert (refused.decision, refused.by) == ("reject", "program")
    assert "--yes" in (refused.message or "")
