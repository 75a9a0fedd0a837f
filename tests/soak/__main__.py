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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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
MOST_GROWTH_MB = 48.0
MOST_GROWTH = {"descriptors": 40, "tasks": 40, "threads": 20, "processes": 2}


@dataclass(frozen=True)
class Resources:
    """What the process holds."""

    memory_mb: float
    descriptors: int
    tasks: int
    threads: int
    processes: int

    @classmethod
    def now(cls) -> Resources:
        """Count them."""
        gc.collect()
        process = psutil.Process()
        return cls(
            memory_mb=process.memory_info().rss / 1e6,
            descriptors=process.num_fds(),
            tasks=len(asyncio.all_tasks()),
            threads=threading.active_count(),
            processes=len(process.children(recursive=True)),
        )


def growth(before: Resources, after: Resources) -> list[str]:
    """Return what has grown by more than chance explains."""
    grown = [
        f"{name} grew from {getattr(before, name)} to {getattr(after, name)}"
        for name, most in MOST_GROWTH.items()
        if getattr(after, name) > getattr(before, name) + most
    ]
    if after.memory_mb > before.memory_mb + MOST_GROWTH_MB:
        grown.append(f"memory grew from {before.memory_mb:.0f} to {after.memory_mb:.0f} MB")
    return grown


async def soak(seconds: float, seed: int, modes: Sequence[str], folder: Path) -> Verdict:
    """Run the soak, and judge it."""
    limits = {"timeout": TIMEOUT_SECONDS, "connect_timeout": CONNECT_SECONDS}
    stop, book = threading.Event(), Book(folder / "calls")
    with Storm(folder, random.Random(seed)) as storm:  # chance, not a secret
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
        await eventually(lambda: book.modes == set(modes), timeout_seconds=60)
        blowing = asyncio.create_task(storm.blow(seconds))
        await asyncio.sleep(min(WARM_UP_SECONDS, seconds / 2))
        before = Resources.now()
        await asyncio.wait([blowing, callers], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(CALM_SECONDS)
        after = Resources.now()
        stop.set()
        await callers
        await blowing
    ran = Counter(storm.ledger.read_text().split())
    verdict = judge(
        book.records(),
        ran,
        storm.outages,
        spend_seconds=CONNECT_SECONDS,
        bound_seconds=BOUND_SECONDS,
    )
    verdict.problems += growth(before, after)
    left = psutil.Process().children(recursive=True)
    verdict.problems += [f"process {one.pid} was left behind" for one in left]
    if verdict.share < LEAST_SHARE:
        verdict.problems.append(f"only {verdict.share:.2%} of the calls were answered")
    _report(verdict, storm, before, after)
    return verdict


def _report(verdict: Verdict, storm: Storm, before: Resources, after: Resources) -> None:
    faults = ", ".join(f"{name} {count}" for name, count in sorted(storm.faults.items()))
    errors = ", ".join(f"{name} {count}" for name, count in sorted((verdict.errors or {}).items()))
    print(f"faults: {sum(storm.faults.values())} ({faults})")
    print(f"calls: {verdict.calls}, answered {verdict.answered / max(verdict.calls, 1):.2%}")
    print(f"of those with the server back in time: {verdict.owed}, answered {verdict.share:.2%}")
    print(f"errors: {errors or 'none'}")
    print(f"before: {before}")
    print(f"after:  {after}")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--mode", action="append", choices=MODES)
    parser.add_argument("--keep", type=Path, help="a folder for the records of all calls")
    options = parser.parse_args()
    print(f"soak: {options.seconds:g} s, seed {options.seed}, process {os.getpid()}", flush=True)
    with tempfile.TemporaryDirectory(prefix="plait-soak-") as folder:
        kept = options.keep or Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        modes: Sequence[str] = options.mode or MODES
        verdict = asyncio.run(soak(options.seconds, options.seed, modes, kept))
    for problem in verdict.problems[:50]:
        print(f"FAILED: {problem}")
    print("passed" if not verdict.problems else f"failed with {len(verdict.problems)} problems")
    raise SystemExit(bool(verdict.problems))


if __name__ == "__main__":
    main()
