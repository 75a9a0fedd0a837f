import asyncio
import json
import sys
from typing import Any

from plait import Toolbox

SERVERS = {
    "reasoning": {
        "command": sys.executable,
        "args": ["-m", "plait.cli", "reasoning", "serve", "--backend=host", "--db=reasoning.db"],
    }
}


async def main() -> None:
    async with Toolbox(SERVERS) as box:

        async def call(tool: str, **arguments: Any) -> Any:
            result = await box.call("reasoning", f"reasoning_{tool}", arguments)
            return result.text if result.is_error else json.loads(result.text)

        step = await call("linear", content="Customers leave after the second invoice.")
        session = step["session_id"]

        refused = await call("tree", content="Why then?", session_id=session)
        print(refused.partition(",")[0])

        tree = await call(
            "tree",
            content="Why then?",
            session_id=session,
            branches=[
                {"thought": "The second invoice is higher.", "confidence": 0.7},
                {"thought": "By then they have tried it out.", "confidence": 0.4},
            ],
        )
        for child in tree["child_branches"]:
            print(child["name"], child["confidence"])

        point = await call("checkpoint_create", session_id=session, name="before prices")
        await call("linear", content="Lower the price.", session_id=session)
        back = await call(
            "backtrack", checkpoint_id=point["id"], thought="Announce the price beforehand."
        )
        print("back at", back["checkpoint_restored"] == point["id"])

        ended = await call(
            "session_conclude",
            session_id=session,
            conclusion="Say on the first invoice what the second will be.",
        )
        print(ended["status"], "-", ended["conclusion"]["text"])

        whole = await call("session_get", session_id=session)
        for thought in whole["thoughts"]:
            print(f"{thought['confidence']:.1f} {thought['mode']}: {thought['content']}")


asyncio.run(main())
