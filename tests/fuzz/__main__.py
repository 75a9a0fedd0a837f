"""Fuzzing of what servers send: `make fuzz SECONDS=60 SEED=1`.

Cases that find something are written to `tests/data/fuzz`, which `make test` runs again.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections import Counter

from tests.fuzz.cases import TARGETS, Case, bench
from tests.fuzz.mutate import frames


async def fuzz(seconds: float, seed: int) -> int:
    """Run cases for so long; return how many found something."""
    chance = random.Random(seed)  # chance, not a secret
    ran: Counter[str] = Counter()
    found = 0
    async with bench() as running:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            server = chance.choice(list(TARGETS))
            target = chance.choice(("call", "call", "call", "list"))
            case = Case.of(
                server, target, frames(chance, target), chance.choice(("events", "json"))
            )
            problems = await running.run(case)
            ran[server] += 1
            if problems:
                found += 1
                print(f"{case.save()}: {server} {target} {case.form}: {'; '.join(problems)}")
    print(f"{sum(ran.values())} cases ({dict(ran)}), {found} found something")
    return found


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"fuzz: {options.seconds:g} s, seed {options.seed}", flush=True)
    raise SystemExit(bool(asyncio.run(fuzz(options.seconds, options.seed))))


if __name__ == "__main__":
    main()
