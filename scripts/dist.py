"""Build the sdist and the wheel twice into dist/; fails if the builds differ, or metadata is bad.

Run by `make dist`. Times in the archives are that of the last commit, so that anyone who builds
the same commit gets the same bytes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"

MOST_BYTES = 3_000_000
"""More than this in one file is something that should not be there."""


def main() -> None:
    """Build, compare, check, and print what there is."""
    shutil.rmtree(DIST, ignore_errors=True)
    first = build(DIST)
    with tempfile.TemporaryDirectory() as other:
        second = build(Path(other))
    if first != second:
        sys.exit(f"Two builds of the same files differ: {first} and {second}")
    files = sorted(DIST.iterdir())
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], check=True)
    if strays := [name for file in files for name in stray_files(file)]:
        sys.exit("Files that do not belong into a distribution:\n" + "\n".join(strays))
    for file in files:
        size = file.stat().st_size
        if size > MOST_BYTES:
            sys.exit(f"{file.name} has {size:,} bytes")
        print(f"{first[file.name]}  {file.name}  {size:,} bytes, built twice")


def build(folder: Path) -> dict[str, str]:
    """Build the sdist, and the wheel from it; return their digests."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": commit_time(), "PYTHONHASHSEED": "random"}
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def commit_time() -> str:
    """Return the time of the last commit; outside of a checkout, a fixed one."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "1577836800"


def stray_files(archive: Path) -> list[str]:
    """Return the members that are caches, environments or secrets."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            names = wheel.namelist()
    else:
        with tarfile.open(archive) as sdist:
            names = sdist.getnames()
    unwanted = {"__pycache__", ".venv", ".cache", ".env", "node_modules", "build"}
    return [name for name in names if unwanted & set(Path(name).parts)]


main()
