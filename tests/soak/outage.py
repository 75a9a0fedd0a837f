"""One outage: readers with 30 s to spend while their server is down for a while."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from plait import PlaitError, Toolbox
from plait.testing import ServerProcess

PROGRAM = str(Path(__file__).with_name("server.py"))
TRANSPORTS = {"http modern": "http", "http legacy": "http", "sse legacy": "sse"}
SPEND_SECONDS = 30
MOST_SECONDS = 1.5
"""How long after its return the first read is answered."""


async def outage(name: str, seconds: float) -> bool:
    """Read from a server that goes away; return whether every read was answered in time."""
    transport, era = TRANSPORTS[name], name.split()[1]
    answered: list[float] = []
    failed: list[str] = []
    reading: set[asyncio.Task[None]] = set()
    with tempfile.TemporaryDirectory() as folder:
        files = ["--ledger", f"{folder}/ledger", "--control", f"{folder}/fault"]
        command = [sys.executable, PROGRAM, transport, "--era", era, "--port", "{port}", *files]
        with ServerProcess(command) as server:
            entry = {"url": server.url, "transport": transport, "connect_timeout": SPEND_SECONDS}
            async with Toolbox({"server": entry}) as box:

                async def read(number: int) -> None:
                    try:
                        await box.call("server", "read", {"question": str(number)})
                    except PlaitError as error:
                        failed.append(str(error))
                    else:
                        answered.append(time.monotonic())

                await read(0)
                answered.clear()
                await asyncio.to_thread(server.kill)
                ends = time.monotonic() + seconds
                while time.monotonic() < ends:
                    reading.add(asyncio.create_task(read(len(reading))))
                    await asyncio.sleep(0.07)
                await asyncio.to_thread(server.start)
                returned = time.monotonic()
                await asyncio.gather(*reading)
    first = min(answered, default=float("inf")) - returned
    print(
        f"{name}: {len(reading)} reads, {len(failed)} failed, "
        f"first answer {first:.2f} s after the return of the server"
    )
    return not failed and first < MOST_SECONDS


async def outages(seconds: float) -> bool:
    """Do it on one transport after the other."""
    return all([await outage(name, seconds) for name in TRANSPORTS])


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20)
    raise SystemExit(not asyncio.run(outages(parser.parse_args().seconds)))


if __name__ == "__main__":
    main()
