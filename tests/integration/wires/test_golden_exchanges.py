"""Hundreds of exchanges with faults have the outcome that the golden files say.

`golden.py` describes and records them; `exchanges.py` has the exchanges.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.integration.wires import golden
from tests.integration.wires.odd_server import Json
from tests.integration.wires.play import ERAS, TRANSPORTS, play

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_every_exchange_comes_out_as_it_is_written_down(
    transport: str, tmp_path: Path
) -> None:
    played = await asyncio.gather(*(play(transport, era, tmp_path / era) for era in ERAS))

    for era, outcomes in zip(ERAS, played, strict=True):
        right, present = golden.read(transport, era), golden.as_json(outcomes)
        assert set(present) == set(right)
        if differences := differing(right, present):
            pytest.fail(f"{transport}, {era}:\n{differences}", pytrace=False)


def differing(right: dict[str, Json], present: dict[str, Json]) -> str:
    """Describe the exchanges that come out otherwise, a few lines for each."""
    lines: list[str] = []
    for name, one in right.items():
        other = present[name]
        for key in sorted({*one, *other}):
            if one.get(key) != other.get(key):
                lines += [
                    name,
                    f"  {key} must be {one.get(key)}",
                    f"  {key} now is  {other.get(key)}",
                ]
    return "\n".join(lines)
