"""The lean wire and the SDK's wire: the same exchanges, with faults, have the same outcome."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from plait import Toolbox
from plait.errors import PlaitError

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

SERVER = Path(__file__).with_name("odd_server.py")

COMMON = (
    "echo", "error", "failed", "structured", "image", "no content", "null result", "list result",
    "text id", "other id", "twice", "noise", "two in one line", "progress", "surrogate",
    "big number", "long", "slow", "unknown",
)  # fmt: skip
RARE = ("never", "die", "die", "answer and die", "answer and die")
CODES = (-32700, -32600, -32601, -32602, -32603, -32000, -32001, -32042, 1, 42)


def exchanges(seed: int, count: int) -> list[tuple[str, Any]]:
    """Return random exchanges: the kind, and what it is about."""
    source = random.Random(seed)  # repeatable, not secret
    chosen: list[tuple[str, Any]] = []
    for _ in range(count):
        kind = source.choices(["call", "list", "read", "prompt", "rare"], weights=[86, 4, 4, 4, 2])[
            0
        ]
        match kind:
            case "call":
                how = source.choice(COMMON)
                value = source.choice([source.randrange(10**9), "ünï", None, [1, {"a": 2}], 2**70])
                if how == "error":
                    value = source.choice(CODES)
                chosen.append(("call", {"how": how, "value": value}))
            case "rare":
                chosen.append(("call", {"how": source.choice(RARE), "value": "x"}))
            case "read":
                chosen.append(("read", source.choice(["odd://one", "odd://missing"])))
            case _:
                chosen.append((kind, "it"))
    return chosen


async def outcome_of(box: Toolbox, kind: str, about: Any) -> object:
    """Make one exchange, and return what its caller sees."""
    try:
        match kind:
            case "call":
                result = (await box.call("odd", "do", about)).to_dict()
                return {key: result[key] for key in result if key not in {"seconds"}}
            case "list":
                return [tool.to_dict() for tool in await box.tools(refresh=True)]
            case "read":
                return (await box.read_resource("odd", about)).model_dump(mode="json")
            case _:
                return (await box.get_prompt("odd", about)).model_dump(mode="json")
    except PlaitError as error:
        return [type(error).__name__, str(error), error.kind, error.retry, error.code, error.status]


async def run_over(
    wire: str, era: str, seed: int, count: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[object], list[str]]:
    """Return the outcomes of the exchanges over one wire, and what the server received."""
    monkeypatch.setenv("PLAIT_WIRE", wire)
    log = folder / f"{wire}.log"
    server: Any = {
        "command": sys.executable,
        "args": [str(SERVER), str(log), era],
        "protocol": era,
        "timeout": 4,  # reached by `never` alone, however busy the machine is
    }
    async with Toolbox({"odd": server}) as box:
        outcomes: list[object] = [
            [kind, about, await outcome_of(box, kind, about)]
            for kind, about in exchanges(seed, count)
        ]
    return outcomes, log.read_text().splitlines()


@pytest.mark.parametrize(("era", "seed"), [("legacy", 1), ("modern", 2)])
async def test_random_exchanges_have_the_same_outcome_on_both_wires(
    era: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lean, lean_log = await run_over("lean", era, seed, 500, tmp_path, monkeypatch)
    sdk, sdk_log = await run_over("sdk", era, seed, 500, tmp_path, monkeypatch)

    for one, other in zip(lean, sdk, strict=True):
        assert json.dumps(one, default=str) == json.dumps(other, default=str)
    assert lean_log == sdk_log
