"""Makes the environment of each contender below `.bench`, from pinned versions."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.compare.contenders import Contender

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / ".bench"
PINS = Path(__file__).with_name("pins")
NODE_WORKER = Path(__file__).parent / "workers" / "node.mjs"

INSTALL_SECONDS = 300
"""Without it, npm would resolve peer dependencies that exclude each other for ever."""

RUNTIME = {
    # The same allocator behaviour for everybody, and no growth of thresholds at run time.
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "1048576",
    "MALLOC_TRIM_THRESHOLD_": "268435456",
    "PYTHONHASHSEED": "0",
    # Python loads its bytecode, as in an installed program, whatever the caller has set.
    "PYTHONDONTWRITEBYTECODE": "",
    "PYTHONPYCACHEPREFIX": str(BENCH / "bytecode"),
    "LANGSMITH_TRACING": "false",
    "MCP_USE_ANONYMIZED_TELEMETRY": "false",
}
"""Variables of every worker."""


class EnvironmentFailedError(Exception):
    """The environment of a contender cannot be made."""


def make(contender: Contender, report: Callable[[str], None]) -> None:
    """Install what a contender needs, unless it is there already.

    Raises:
        EnvironmentFailedError: With the end of the installer's output.
    """
    if contender.environment is None:
        return
    folder = BENCH / contender.environment
    folder.mkdir(parents=True, exist_ok=True)
    if contender.is_node:
        shutil.copy(NODE_WORKER, folder / "worker.mjs")
    pins = PINS / ("package.json" if contender.is_node else f"{contender.environment}.txt")
    stamp, digest = folder / ".installed", hashlib.sha256(pins.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text("ascii") == digest:
        return
    report(f"installing {contender.title}")
    if contender.is_node:
        _install_node(folder, pins)
    else:
        _install_python(folder, pins)
    stamp.write_text(digest, "ascii")


def command(contender: Contender) -> list[str]:
    """Return the command that starts a worker."""
    if contender.is_node:
        return [_tool("node"), "--expose-gc", "worker.mjs"]
    python = (
        sys.executable
        if contender.environment is None
        else str(BENCH / contender.environment / "bin" / "python")
    )
    return [python, "-m", "benchmarks.compare.workers", contender.id]


def directory(contender: Contender) -> Path:
    """Return the directory a worker runs in."""
    return BENCH / "node" if contender.is_node else ROOT


def _install_python(folder: Path, pins: Path) -> None:
    uv = _tool("uv")
    python = str(folder / "bin" / "python")
    _run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)])
    _run([uv, "pip", "install", "--quiet", "--python", python, "-r", str(pins)])


def _install_node(folder: Path, pins: Path) -> None:
    shutil.copy(pins, folder / "package.json")
    flags = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
    _run([_tool("npm"), "install", "--prefix", str(folder), *flags])


def _tool(name: str) -> str:
    """Find a program beside this Python, else on the path."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise EnvironmentFailedError(f"{name} is not installed; run `make setup`")
    return found


def _run(arguments: list[str]) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    env = {**os.environ, "PATH": path, "NODE_OPTIONS": "--use-system-ca", "UV_SYSTEM_CERTS": "1"}
    try:
        done = subprocess.run(
            arguments, env=env, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        what = f"{Path(arguments[0]).name} {arguments[1]} did not end within {INSTALL_SECONDS} s"
        raise EnvironmentFailedError(what) from error
    except OSError as error:
        raise EnvironmentFailedError(str(error)) from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise EnvironmentFailedError("\n".join(lines[-8:]))
