"""Test the wheel in dist/ without the source tree, on every Python that plait supports: [TEST …].

Run by `make test-wheel`. The tests are copied to a folder that has no `src`, so that what they
import can only be the installed wheel.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
COPIED = ("tests", "docs", "scripts", "benchmarks", "pyproject.toml", "README.md", "CHANGELOG.md")
TESTS = ("tests/unit", "tests/integration/connections/test_every_transport.py")
"""Everything without processes, and real servers on every transport."""


def main() -> None:
    """Test on each version; one that cannot be had is named, and is no failure."""
    [wheel] = (ROOT / "dist").glob("*.whl")
    failed: list[str] = []
    tested = 0
    for version in VERSIONS:
        python = interpreter(version)
        if python is None:
            print(f"Python {version} is not on this machine and cannot be fetched: not tested")
            continue
        tested += 1
        with tempfile.TemporaryDirectory(prefix="plait-wheel-") as folder:
            if not passes(wheel, python, Path(folder)):
                failed.append(version)
    if failed or not tested:
        sys.exit(f"The wheel fails on {', '.join(failed) or 'no Python at all'}")


def interpreter(version: str) -> str | None:
    """Return the path of a Python: one of pyenv, or one that uv finds, or fetches if it may."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    if built := sorted(pyenv.glob(f"{version}.*/bin/python")):
        return str(built[-1])
    done = uv("python", "find", version)
    if done.returncode:
        uv("python", "install", version)
        done = uv("python", "find", version)
    return done.stdout.strip() or None


def passes(wheel: Path, python: str, folder: Path) -> bool:
    """Install the wheel into a new environment, and run tests on it far from the sources."""
    environment, tests = folder / "venv", folder / "tree"
    tests.mkdir()
    for name in COPIED:
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tests / name)
    program = environment / "bin" / "python"
    needed = [f"{wheel}[all]", "--group", f"{ROOT / 'pyproject.toml'}:test"]
    for step in (
        ("venv", "--quiet", "--seed", "--python", python, str(environment)),
        ("pip", "install", "--quiet", "--python", str(program), *needed, "-c", "constraints.txt"),
    ):
        done = uv(*step)
        if done.returncode:
            print(done.stderr)
            return False
    command = [str(program), "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile"]
    command += sys.argv[1:] or TESTS
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    print(subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout)
    return subprocess.run(command, cwd=tests, env=clean, check=False).returncode == 0


def uv(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run uv, which is in the environment of this script."""
    program = Path(sys.executable).with_name("uv")
    return subprocess.run(
        [program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


main()
