"""Prompts on the terminal for calls that need approval by the policy."""

from __future__ import annotations

import asyncio
import json
import sys

import click

from plait.cli.terminal import print_aside, read_typed_line, visible
from plait.client.calls.approval import Approval, ApprovalRequest

_YES = frozenset({"y", "yes"})
_NO = frozenset({"n", "no", ""})
_ALWAYS = frozenset({"a", "always"})
NO_TERMINAL = "there is no terminal to prompt on; run it in one, or approve with --yes"


class TerminalApproval:
    """Prompts on the terminal, one call at a time; remembers "always" for each tool."""

    def __init__(self, *, yes: bool = False, ask: bool = True) -> None:
        """Approve everything if `yes`; reject instead of prompting unless `ask`."""
        self._yes = yes
        self._ask = ask
        self._always: set[str] = set()
        self._turn = asyncio.Lock()

    async def __call__(self, request: ApprovalRequest) -> Approval:
        """Return the decision of the user; without a terminal, the call is rejected."""
        if self._yes or request.where in self._always:
            return Approval("approve")
        if not self._ask or not sys.stdin.isatty():
            return Approval("reject", message=NO_TERMINAL)
        async with self._turn:
            return await self._prompt(request)

    async def _prompt(self, request: ApprovalRequest) -> Approval:
        if request.where in self._always:  # answered while this request waited
            return Approval("approve")
        print_aside(
            "policy", f"{request.where} needs your approval: {request.reason}", colour="cyan"
        )
        for name, value in request.arguments.items():
            shown = json.dumps(value, ensure_ascii=False, default=str)
            click.echo(f"  {visible(name)}: {visible(shown)}", err=True)
        while True:
            click.echo("Call it? [y]es, [N]o, [a]lways in this run: ", nl=False, err=True)
            word = (await read_typed_line() or "").strip().lower()
            if word in _ALWAYS:
                self._always.add(request.where)
            if word in _ALWAYS | _YES:
                return Approval("approve")
            if word in _NO:
                return Approval("reject", message="the user rejected the call on the terminal")
