"""A process that writes thoughts, and says of each that it was kept."""

from __future__ import annotations

import asyncio
import sys

from plait.reasoning.backends.port import HostCompleter
from plait.reasoning.reasoner import Reasoner
from plait.reasoning.results import result_data
from plait.reasoning.storage.database import database_from_text
from plait.reasoning.storage.sql import SqlStorage
from plait.reasoning.values import Thought


async def main(database: str, session: str, way: str, count: int) -> None:
    """Write `count` thoughts, by the tool or straight into the store."""
    store = SqlStorage(database_from_text(database))
    await store.open()
    reasoner = Reasoner(store, HostCompleter())
    for number in range(count):
        if way == "tool":
            arguments = {"content": f"thought {number}", "session_id": session}
            kept = result_data(await reasoner.call("reasoning_linear", arguments))["thought_id"]
        else:
            thought = Thought(session_id=session, content=f"thought {number}", mode="linear")
            await store.create_thought(thought)
            kept = thought.id
        print(kept, flush=True)
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
