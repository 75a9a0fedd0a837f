"""Asking whoever sits at the terminal about calls that the policy wants approved."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import click

from plait._support.threads import in_thread
from plait.cli.terminal import print_aside, visible
from plait.client.calls.approval import Approval, ApprovalRequest

_YES = frozenset({"y", "yes"})
_NO = frozenset({"n", "no", ""})
_ALWAYS = frozenset({"a", "always"})
_LINE_BYTES = 4096

NOBODY = "there is no terminal to ask on; run it in one, or approve with --yes"


class TerminalApproval:
    """Asks on the terminal, one question at a time; "always" holds for as long as this lives."""

    def __init__(self, *, yes: bool = False, ask: bool = True) -> None:
        """Ask, or approve of everything without asking if `yes`."""
        self._yes = yes
        self._ask = ask
        self._always: set[str] = set()
        self._turn = asyncio.Lock()

    async def __call__(self, request: ApprovalRequest) -> Approval:
        """Return what the person decides; where there is none, the call is rejected."""
        if self._yes or request.where in self._always:
            return Approval("approve")
        if not self._ask or not sys.stdin.isatty():
            return Approval("reject", message=NOBODY)
        async with self._turn:
            return await self._asked(request)

    async def _asked(self, request: ApprovalRequest) -> Approval:
        if request.where in self._always:  # said while this one waited for its turn
            return Approval("approve")
        print_aside(
            "policy", f"{request.where} needs your approval: {request.reason}", colour="cyan"
        )
        for name, value in request.arguments.items():
            shown = json.dumps(value, ensure_ascii=False, default=str)
            click.echo(f"  {visible(name)}: {visible(shown)}", err=True)
        while True:
            click.echo("Call it? [y]es, [N]o, [a]lways in this run: ", nl=False, err=True)
            word = (await in_thread(_typed_line)).strip().lower()
            if word in _ALWAYS:
                self._always.add(request.where)
            if word in _ALWAYS | _YES:
                return Approval("approve")
            if word in _NO:
                return Approval("reject", message="the person at the terminal said no")


def _typed_line() -> str:
    # Not sys.stdin.readline: at Ctrl-C the thread would keep the lock that Python's end needs.
    return os.read(sys.stdin.fileno(), _LINE_BYTES).decode(errors="replace")
