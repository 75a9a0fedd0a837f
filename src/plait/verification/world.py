"""The world of one run: a new folder, the servers of the case, and what checks saw there."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio

from plait.agents.port import AgentPort
from plait.client.config.read import ClientConfig, read_config
from plait.client.toolbox import Toolbox
from plait.errors import ConfigError, PlaitError
from plait.verification.checks import CheckPassesError
from plait.verification.plan import PlannedRun, servers_as_written
from plait.verification.suite import Case

WORKDIR = "{workdir}"
"""Replaced by the folder of the run, in every text of the servers."""
SEED = "{seed}"


SETUP_SECONDS: Final = 120.0
"""A program of a setup that takes longer hangs."""
MAX_LAST_WORDS_CHARACTERS: Final = 300
"""What a program that failed wrote last is enough to see why."""


class SetupError(Exception):
    """The world of a run could not be prepared."""


class WorldGoneError(CheckPassesError):
    """A check wants to see a world that has ended, and did not look while it was there."""


@dataclass(slots=True)
class World:
    """The servers of a run, and what was seen of them; what was seen outlives them."""

    before: dict[str, str] = field(default_factory=dict[str, str])
    """What tools returned before the run, by their calls."""
    after: dict[str, str] = field(default_factory=dict[str, str])
    toolbox: Toolbox | None = None
    """The open servers; `None` after the run."""

    async def take_snapshot(self, case: Case) -> None:
        """Call the tools whose results a check compares with those after the run."""
        for check in (check["world"] for check in case.checks if "world" in check):
            if "changed" in check:
                arguments: dict[str, Any] = check.get("arguments") or {}
                call = check["server"], check["tool"], arguments
                self.before[_call_key(*call)] = await self._call(*call)

    async def call_tool(self, server: str, tool: str, arguments: Mapping[str, Any]) -> str:
        """Return what a tool returns after the run.

        Raises:
            WorldGoneError: The run is an earlier one, and the tool was not called after it.
        """
        key = _call_key(server, tool, arguments)
        if key not in self.after:
            self.after[key] = await self._call(server, tool, arguments)
        return self.after[key]

    def seen_before(self, server: str, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """Return what a tool returned before the run."""
        return self.before.get(_call_key(server, tool, arguments))

    async def _call(self, server: str, tool: str, arguments: Mapping[str, Any]) -> str:
        if self.toolbox is None:
            raise WorldGoneError(f"{server}/{tool} was not called when the world was there")
        return (await self.toolbox.call(server, tool, arguments)).text

    def to_json(self) -> str:
        """Return what was seen, for a file."""
        return json.dumps({"before": self.before, "after": self.after}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> World:
        """Return a world that has ended."""
        seen = json.loads(text)
        return cls(before=seen["before"], after=seen["after"])


@dataclass(frozen=True, slots=True)
class Open:
    """An agent, and its servers, which are open."""

    agent: AgentPort
    servers: ClientConfig
    toolbox: Toolbox | None


class SharedWorlds:
    """The worlds of `scope: suite`: opened when first needed, and open until the suite ends."""

    def __init__(self) -> None:
        self._open: dict[Hashable, Open] = {}
        self._opening: dict[Hashable, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._stack = AsyncExitStack()

    async def get(
        self, key: Hashable, open_world: Callable[[AsyncExitStack], Awaitable[Open]]
    ) -> Open:
        """Return the world of a key, which is opened once."""
        async with self._opening[key]:
            if key not in self._open:
                async with AsyncExitStack() as stack:
                    self._open[key] = await open_world(stack)
                    self._stack.push_async_exit(stack.pop_all())
            return self._open[key]

    async def aclose(self) -> None:
        """End all of them."""
        await self._stack.aclose()
        self._open.clear()


async def prepare_folder(run: PlannedRun, source: Path, folder: Path) -> None:
    """Copy the files of a run into its folder, and run the programs of its setup there.

    Raises:
        ConfigError: A file would be outside of the folder.
        SetupError: A program failed.
    """
    await asyncio.to_thread(_copy_files, run.case.files, source, folder)
    for number, step in enumerate(run.case.setup, 1):
        if step.run is None:
            continue
        command = [_filled(word, run, folder) for word in step.run]
        named = f"step {number}, {step.run[0]}"
        try:
            with anyio.fail_after(SETUP_SECONDS):
                done = await anyio.run_process(
                    command, cwd=folder, check=False, stderr=subprocess.STDOUT
                )
        except TimeoutError as error:
            raise SetupError(f"{named}, took over {SETUP_SECONDS:g} s") from error
        except (OSError, ValueError) as error:
            raise SetupError(f"{named}: {error}") from error
        if done.returncode:
            last = done.stdout.decode(errors="replace").strip()[-MAX_LAST_WORDS_CHARACTERS:]
            raise SetupError(
                f"{named}, ended with {done.returncode}" + (f": {last}" if last else "")
            )


async def call_setup_tools(run: PlannedRun, toolbox: Toolbox | None, folder: Path) -> None:
    """Call the tools of the setup of a run.

    Raises:
        SetupError: A tool failed, or there are no servers.
    """
    for number, step in enumerate(run.case.setup, 1):
        if step.call is None:
            continue
        named = f"step {number}, {step.call.server}/{step.call.tool}"
        if toolbox is None:
            raise SetupError(f"{named}: the case has no servers")
        arguments = json.loads(_filled(json.dumps(step.call.arguments), run, folder, as_json=True))
        try:
            result = await toolbox.call(step.call.server, step.call.tool, arguments)
        except PlaitError as error:
            raise SetupError(f"{named}: {error}") from error
        if result.is_error:
            raise SetupError(f"{named}: {result.text[:MAX_LAST_WORDS_CHARACTERS]}")


def _filled(text: str, run: PlannedRun, folder: Path, *, as_json: bool = False) -> str:
    """Fill in the seed and the folder of a run; in JSON, the path is escaped."""
    path = json.dumps(str(folder))[1:-1] if as_json else str(folder)
    return text.replace(SEED, str(run.seed or 0)).replace(WORKDIR, path)


def _copy_files(files: Mapping[str, str], source: Path, target: Path) -> None:
    for name, origin in files.items():
        place = (target / name).resolve()
        if not place.is_relative_to(target.resolve()):
            raise ConfigError(f"the file {name!r} is outside of the working folder")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / origin, place)


def servers_of(run: PlannedRun, base: Path, folder: Path) -> ClientConfig:
    """Read the servers of a run, with its folder and seed filled in; all are required.

    Raises:
        ConfigError: A server is wrong.
    """
    written = servers_as_written(run.case, base)
    if not written:
        return ClientConfig(servers={})
    text = _filled(json.dumps(_required(written)), run, folder, as_json=True)
    return read_config(json.loads(text), base=base)


def shared_servers(run: PlannedRun, base: Path) -> str:
    """Return what two runs must have in common to share servers, besides their model.

    Raises:
        ConfigError: The file of the servers cannot be read.
    """
    setup = [step.model_dump(mode="json") for step in run.case.setup]
    text = json.dumps([servers_as_written(run.case, base), setup], sort_keys=True)
    return text.replace(SEED, str(run.seed or 0))


def server_names(run: PlannedRun, base: Path) -> tuple[str, ...]:
    """Return the names of the servers of a run, as they are written."""
    written: Mapping[str, Any] = servers_as_written(run.case, base) or {}
    listed = _list_in(written)
    return tuple(written if listed is None else written[listed])


def _list_in(written: Mapping[str, Any]) -> str | None:
    """Return the key that holds the servers of a file; `None` if they are the file."""
    names = ("servers", "mcpServers")
    return next((name for name in names if isinstance(written.get(name), Mapping)), None)


def _required(written: Mapping[str, Any]) -> dict[str, Any]:
    """Make servers required: an agent without its tools says nothing about the agent."""
    if (listed := _list_in(written)) is not None:
        return {**written, listed: _required(written[listed])}
    return {
        name: {"required": True, **server} if isinstance(server, Mapping) else server
        for name, server in written.items()
    }


def _call_key(server: str, tool: str, arguments: Mapping[str, Any]) -> str:
    return json.dumps([server, tool, arguments], sort_keys=True, default=str)
