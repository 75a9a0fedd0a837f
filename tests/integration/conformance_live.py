"""Some scenarios of the official suites, run for real; only when this file is named to pytest.

The suites come from a package registry, so the usual run, which reads what they found, does not
need them. `make conformance` runs all of them.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("scenario", ["initialize", "tools_call", "http-standard-headers"])
def test_a_scenario_passes_under_all_its_conditions(scenario: str) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "conformance.py", "--scenario", scenario],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    assert done.returncode == 0, done.stderr
