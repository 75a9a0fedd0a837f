"""Requests without httpx2 and with it: the same exchanges, with faults, have the same outcome."""

from __future__ import annotations

import asyncio
import json
import random
import re

import pytest

from plait import Toolbox
from plait.errors import PlaitError
from tests.integration.connections.test_http_wire import FAULTS, FORMS
from tests.servers.scripted_http import Json, Reply, scripted_http

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

SERVERS = 10
ODD = ("error", "other id", "notification first", "never", "cut stream", "slow")


def kinds(seed: int, count: int) -> list[str]:
    """Return random kinds of answers; most of them are good."""
    source = random.Random(seed)  # repeatable, not secret
    every = [*FORMS, *FORMS, *ODD]
    return [source.choice([*every, *every, *FAULTS]) for _ in range(count)]


async def answer_as(kind: str, reply: Reply) -> None:
    """Answer a call in one of the ways."""
    if kind in FAULTS:
        await FAULTS[kind][0](reply)
        return
    response = reply.response(kind)
    match kind:
        case "error":
            error = {"code": -32602, "message": "no"}
            reply.json({"jsonrpc": "2.0", "id": response["id"], "error": error})
        case "other id":
            reply.start_events()
            reply.event({**response, "id": 0})
            reply.end()
        case "notification first":
            params = {"level": "info", "data": "x"}
            reply.start_events()
            reply.event({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
            reply.event(response)
            reply.end()
        case "never":
            await reply.hung_up.wait()
        case "cut stream":
            reply.start_events()
            reply.event("")
            await reply.writer.drain()
            reply.cut()
        case "slow":
            await asyncio.sleep(0.05)
            reply.json(response)
        case _:
            FORMS[kind](reply)


async def run_over(
    wire: str, era: str, chosen: list[str], monkeypatch: pytest.MonkeyPatch
) -> list[tuple[list[object], list[Json]]]:
    """Make the exchanges over one wire, with several servers at once, as many of them wait."""
    monkeypatch.setenv("PLAIT_WIRE", wire)
    shares = (chosen[first::SERVERS] for first in range(SERVERS))
    return await asyncio.gather(*(run_on_a_server(era, share) for share in shares))


async def run_on_a_server(era: str, chosen: list[str]) -> tuple[list[object], list[Json]]:
    """Return the outcomes of exchanges with one server, and what it received."""

    async def answer(reply: Reply) -> None:
        await answer_as(reply.seen.message["params"]["arguments"]["kind"], reply)

    outcomes: list[object] = []
    async with scripted_http(answer, era=era) as server:
        config = {"url": server.url, "sse_read_timeout": 1.0, "reconnect": {"max_attempts": 1}}
        async with Toolbox({"server": config}) as box:
            for number, kind in enumerate(chosen):
                arguments = {"kind": kind, "number": number}
                try:
                    outcome: object = (await box.call("server", "work", arguments)).text
                except PlaitError as error:
                    text = str(error).replace(server.url.split("/")[2], "HOST")
                    if kind == "no HTTP":  # each parser says what it expected
                        text = re.sub("lost: .* \\(", "lost: (", text)
                    outcome = [type(error).__name__, text, error.retry, error.code, error.status]
                outcomes.append([kind, outcome])
    return outcomes, [seen.message["params"]["arguments"] for seen in server.calls()]


@pytest.mark.parametrize(("era", "seed"), [("legacy", 3), ("modern", 4)])
async def test_random_exchanges_have_the_same_outcome_with_httpx2_and_without(
    era: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = kinds(seed, 500)
    over_lean = await run_over("lean", era, chosen, monkeypatch)
    over_sdk = await run_over("sdk", era, chosen, monkeypatch)

    for (lean, lean_calls), (sdk, sdk_calls) in zip(over_lean, over_sdk, strict=True):
        for one, other in zip(lean, sdk, strict=True):
            assert json.dumps(one) == json.dumps(other)
        assert lean_calls == sdk_calls
