import asyncio
import json
import sys
from typing import Any

from plait import Toolbox

SERVE = "-m plait.cli reasoning serve --backend host --profile compact --db plan.db"
SERVERS = {"reasoning": {"command": sys.executable, "args": SERVE.split()}}

HOURS = {"pack": 3.0, "drive": 1.0, "unpack": 2.0, "network": 2.5}
VAN_ENDS = 14.0


def ends(*jobs: str, start: float = 9.0) -> float:
    """Return when jobs are done that are done one after the other."""
    return start + sum(HOURS[job] for job in jobs)


async def solve(box: Toolbox) -> None:
    async def call(tool: str, **arguments: Any) -> Any:
        print(">", tool, json.dumps(arguments))
        result = await box.call("reasoning", f"reasoning_{tool}", {**arguments, "session_id": "s"})
        print("<", result.text)
        return json.loads(result.text)

    await call("think", content="Move the office on Saturday; the van is ours until 14:00.")
    ways = await call(
        "explore",
        content="In which order?",
        branches=[
            {"thought": "One team does all jobs in a row.", "confidence": 0.7},
            {"thought": "Two teams: one moves, one sets up the network.", "confidence": 0.6},
        ],
    )
    first, second = (way["branch_id"] for way in ways["branches"])
    point = await call("steer", action="checkpoint", name="before a team is chosen")

    await call("steer", action="focus", branch_id=first)
    end = ends("pack", "drive", "unpack", "network")
    await call("think", content=f"In a row it ends at {end}, after the van is gone.")
    if end > VAN_ENDS:
        await call(
            "steer",
            action="backtrack",
            checkpoint_id=point["checkpoint_id"],
            thought="One team is too slow.",
        )
        await call("steer", action="abandon", branch_id=first)
        await call("steer", action="focus", branch_id=second)

    graph = {"graph_id": "g1"}
    await call("graph", action="init", content="Two teams", problem="Done by 14:00")
    plans = {
        "network after the drive": ends("network", start=ends("pack", "drive")),
        "network at nine, from the other side": ends("network"),
    }
    grown = await call(
        "graph", action="generate", **graph, continuations=[{"thought": plan} for plan in plans]
    )
    nodes = [node["node_id"] for node in grown["nodes"]]
    for node, end in zip(nodes, plans.values(), strict=True):
        fits = {"overall_score": 0.9 if end <= VAN_ENDS else 0.2, "rationale": f"ends at {end}"}
        await call("graph", action="score", node_id=node, scores=fits)
    await call("graph", action="prune", threshold=0.5)
    await call("graph", action="finalize")

    await call("session")
    await call("session", action="conclude", conclusion="Two teams; the network begins at nine.")


async def main() -> None:
    async with Toolbox(SERVERS) as box:
        await solve(box)


asyncio.run(main())
