"""Measure a step of reasoning in sessions of different lengths.

    python benchmarks/reasoning/storage.py [--db PATH|URL] [--lengths 10 1000 100000]

The cost must not grow with the session: the last line compares the longest with the shortest.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from plait.reasoning.backends.port import HostCompleter
from plait.reasoning.reasoner import Reasoner
from plait.reasoning.storage.database import database_from_text
from plait.reasoning.storage.sql import SqlStorage
from plait.reasoning.values import Changes, Session, Thought, new_id

BATCH = 5000


async def fill(store: SqlStorage, length: int) -> str:
    """Make a session of so many thoughts."""
    session = Session(id=f"length-{length}-{new_id()[:8]}", mode="linear")
    await store.create_session(session)
    for start in range(0, length, BATCH):
        numbers = range(start, min(length, start + BATCH))
        thoughts = tuple(
            Thought(session_id=session.id, content=f"thought {number} " + "x" * 200, mode="linear")
            for number in numbers
        )
        await store.write(Changes(thoughts=thoughts))
    return session.id


async def measure(reasoner: Reasoner, session: str, rounds: int) -> list[float]:
    """Return how long steps take, in milliseconds."""
    taken: list[float] = []
    for number in range(rounds):
        began = time.perf_counter()
        arguments = {"content": f"step {number} {new_id()}", "session_id": session}
        await reasoner.call("reasoning_linear", arguments)
        taken.append((time.perf_counter() - began) * 1000)
    return taken


async def main() -> None:
    """Fill, measure in turns, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--db")
    parser.add_argument("--lengths", type=int, nargs="+", default=[10, 1000, 100_000])
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = SqlStorage(database_from_text(options.db or str(Path(folder) / "bench.db")))
        await store.open()
        reasoner = Reasoner(store, HostCompleter())
        sessions = {length: await fill(store, length) for length in options.lengths}
        taken: dict[int, list[float]] = {length: [] for length in sessions}
        for _ in range(4):
            # In turns, so that a busy moment of the machine hits all of them.
            for length, session in sessions.items():
                taken[length] += await measure(reasoner, session, options.rounds // 4 + 1)
        for length, found in taken.items():
            p99 = sorted(found)[int(len(found) * 0.99)]
            middle = statistics.median(found)
            print(f"{length:>7} thoughts: median {middle:6.2f} ms, p99 {p99:6.2f} ms")
        ends = statistics.median(taken[max(taken)]) / statistics.median(taken[min(taken)])
        print(f"longest / shortest: {ends:.2f}")
        await store.aclose()


asyncio.run(main())
