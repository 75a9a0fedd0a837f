"""Two users whose calls are open on one session of the handshake era: no question is crossed."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitResult

from plait import Callbacks, MultiServerMCPClient
from plait.testing import ServerProcess
from tests.nursery import entry, python

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

PROGRAM = str(Path(__file__).parents[2] / "servers" / "asking.py")

user: ContextVar[str] = ContextVar("user", default="nobody")


@pytest.mark.parametrize("over", ["stdio", "http"])
async def test_a_question_is_answered_by_the_user_whose_call_asked(
    tmp_path: Path, over: str
) -> None:
    async def answer(mcp_context: Any, params: Any, context: Any) -> ElicitResult:
        await asyncio.sleep(0)
        return ElicitResult(action="accept", content={"text": f"{user.get()} on {params.message}"})

    async def book(tool: Any, name: str) -> str:
        user.set(name)
        return await tool.ainvoke({"name": name})

    (tmp_path / "ledger").touch()
    arguments = (PROGRAM, str(tmp_path / "ledger"))
    with ServerProcess([*python(), *arguments, "http"]) as running:
        config = entry(*arguments, "stdio") if over == "stdio" else {"url": running.url}
        servers = {"desk": {**config, "protocol": "legacy"}}
        async with MultiServerMCPClient(
            servers, callbacks=Callbacks(on_elicitation=answer)
        ) as client:
            (tool,) = await client.get_tools(include="book")
            booked: list[str] = []
            names = [f"user-{number}" for number in range(3)]
            for _ in range(2):  # it is known only then that the tool asks
                booked = await asyncio.gather(
                    *(asyncio.create_task(book(tool, name)) for name in names)
                )

    expected = [f"{n}: {n} on seat for {n}?, {n} on meal for {n}?" for n in names]
    assert booked == expected
