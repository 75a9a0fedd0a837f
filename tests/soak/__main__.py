"""A soak: calls on every transport and in every mode, under a fault a second.

`make soak SECONDS=120 SEED=1` runs it. It fails when an answer belongs to another question, when a
call that must not be repeated ran twice, when an acknowledged call is missing from the ledger of
the servers, when a call outlives its bound, when fewer calls are answered than promised, or when
memory, descriptors, tasks, threads or processes grow.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from plait.testing import eventually
from tests.soak.callers import MODES, Shift, in_process_server, run_mode
from tests.soak.records import Book, Verdict, judge
from tests.soak.storm import Storm

TIMEOUT_SECONDS = 10.0
CONNECT_SECONDS = 10.0
BOUND_SECONDS = TIMEOUT_SECONDS + CONNECT_SECONDS + 5.0
"""A call waits for a session, then for its answer; the rest is for a busy machine."""
LEAST_SHARE = 0.99
WARM_UP_SECONDS = 20.0
CALM_SECONDS = 5.0
"""How long callers go on after the last fault, before what grew is counted."""
MOST_GROWTH = {"memory_mb": 48, "descriptors": 40, "tasks": 40, "threads": 20, "processes": 2}


@dataclass(frozen=True)
class Resources:
    """What a process holds."""

    memory_mb: float
    descriptors: int
    tasks: int
    threads: int
    processes: int

    @classmethod
    def of(cls, pid: int | None) -> Resources:
        """Count those of a process, or those of this one with its tasks."""
        gc.collect()
        process = psutil.Process(pid)
        return cls(
            memory_mb=process.memory_info().rss / 1e6,
            descriptors=process.num_fds(),
            tasks=len(asyncio.all_tasks()) if pid is None else 0,
            threads=process.num_threads(),
            processes=len(process.children(recursive=True)),
        )

    def growth_since(self, before: Resources) -> list[str]:
        """Return what has grown by more than chance explains."""
        return [
            f"{name} grew from {getattr(before, name):.0f} to {getattr(self, name):.0f}"
            for name, most in MOST_GROWTH.items()
            if getattr(self, name) > getattr(before, name) + most
        ]


async def weather(
    storm: Storm,
    seconds: float,
    book: Book,
    callers: asyncio.Future[Any],
    modes: Iterable[str],
    stop: threading.Event | asyncio.Event,
    pid: int | None = None,
) -> tuple[Resources, Resources]:
    """Blow while callers call; return what a process held after a while, and at the end."""
    await eventually(lambda: book.modes == set(modes), timeout_seconds=60)
    blowing = asyncio.create_task(storm.blow(seconds))
    await asyncio.sleep(min(WARM_UP_SECONDS, seconds / 2))
    before = Resources.of(pid)
    await asyncio.wait([blowing, callers], return_when=asyncio.FIRST_COMPLETED)
    await asyncio.sleep(CALM_SECONDS)
    after = Resources.of(pid)
    stop.set()
    await callers
    await blowing
    return before, after


def conclude(
    book: Book, storm: Storm, held: tuple[Resources, Resources], left: Iterable[psutil.Process]
) -> Verdict:
    """Judge the calls, what the process held before and after, and the processes that are left."""
    before, after = held
    verdict = judge(
        book.records(),
        Counter(storm.ledger.read_text().split()),
        storm.outages,
        spend_seconds=CONNECT_SECONDS,
        bound_seconds=BOUND_SECONDS,
    )
    verdict.problems += after.growth_since(before)
    verdict.problems += [f"process {one.pid} was left behind" for one in left]
    if verdict.share < LEAST_SHARE:
        verdict.problems.append(f"only {verdict.share:.2%} of the calls were answered")
    print(f"faults: {sum(storm.faults.values())}, {dict(sorted(storm.faults.items()))}")
    print(f"calls: {verdict.calls}, answered {verdict.answered / max(verdict.calls, 1):.2%}")
    print(f"of those with the server back in time: {verdict.owed}, answered {verdict.share:.2%}")
    print(f"errors: {dict(sorted((verdict.errors or {}).items())) or 'none'}")
    print(f"before: {before}\nafter:  {after}")
    return verdict


async def soak(options: argparse.Namespace, folder: Path) -> Verdict:
    """Run the soak, and judge it."""
    modes: Sequence[str] = options.mode or MODES
    limits = {"timeout": TIMEOUT_SECONDS, "connect_timeout": CONNECT_SECONDS}
    stop, book = threading.Event(), Book(folder / "calls")
    with Storm(folder, random.Random(options.seed)) as storm:  # chance, not a secret
        shifts = [
            Shift(
                mode,
                {
                    **storm.config(mode, limits),
                    "here": {"server": in_process_server(storm.ledger), **limits},
                },
                book,
                stop,
                storm.pids,
            )
            for mode in modes
        ]
        callers = asyncio.gather(*(run_mode(shift) for shift in shifts))
        held = await weather(storm, options.seconds, book, callers, modes, stop)
    return conclude(book, storm, held, psutil.Process().children(recursive=True))


def main(
    soak: Callable[[argparse.Namespace, Path], Coroutine[Any, Any, Verdict]] = soak,
    about: str = __doc__ or "",
    modes: Sequence[str] = MODES,
) -> None:
    """Run a soak from the command line."""
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--mode", action="append", choices=modes)
    parser.add_argument("--keep", type=Path, help="a folder for the records of all calls")
    options = parser.parse_args()
    print(f"soak: {options.seconds:g} s, seed {options.seed}, process {os.getpid()}", flush=True)
    with tempfile.TemporaryDirectory(prefix="plait-soak-") as folder:
        kept = options.keep or Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        verdict = asyncio.run(soak(options, kept))
    for problem in verdict.problems[:50]:
        print(f"FAILED: {problem}")
    print("passed" if not verdict.problems else f"failed with {len(verdict.problems)} problems")
    raise SystemExit(bool(verdict.problems))


if __name__ == "__main__":
    main()
