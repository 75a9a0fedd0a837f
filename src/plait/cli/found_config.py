"""Finds the configuration of a command: the named one, or one in a default place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from plait.client.config.document import user_path
from plait.client.config.raw_value import home_of
from plait.errors import ConfigError, Problem

ENVIRONMENT_VARIABLE = "PLAIT_CONFIG"


Origin = Literal["named", "user", "folder"]
"""How a configuration was found: by its name, in the home folder, or in the working folder."""


@dataclass(frozen=True, slots=True)
class FoundConfig:
    """A configuration file, and how it was found."""

    path: Path
    origin: Origin


def find_config(
    explicit: str | None = None,
    *,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> FoundConfig:
    """Return the configuration file: the named one, else the first of the default paths."""
    known = os.environ if environ is None else environ
    named, by = explicit, "--config"
    if named is None:
        named, by = known.get(ENVIRONMENT_VARIABLE), f"${ENVIRONMENT_VARIABLE}"
    if explicit is not None or named:
        path = user_path(named or "")
        if path.is_file():
            return FoundConfig(path, "named")
        reason = "is a folder" if path.is_dir() else "does not exist"
        file, message = str(path), f"the configuration named by {by} {reason}"
    else:
        places, home = config_places(cwd=cwd, environ=known), home_of(known)
        for path in places:
            if path.is_file():
                own = {home.resolve(), places[-1].parent.resolve()}
                return FoundConfig(path, "user" if path.parent.resolve() in own else "folder")
        looked = ", ".join(
            f"~/{path.relative_to(home).as_posix()}" if path.is_relative_to(home) else str(path)
            for path in places
        )
        file, message = None, "no configuration found; looked for --config, "
        message += f"${ENVIRONMENT_VARIABLE}, {looked}"
    hint = "`plait init` creates one"
    problem = Problem(file=file, path="", code="file_missing", message=message, suggestion=hint)
    raise ConfigError.from_problems([problem])


def config_places(
    *, cwd: Path | None = None, environ: Mapping[str, str] | None = None
) -> tuple[Path, ...]:
    """Return the default paths of a configuration, in order."""
    folder = Path.cwd() if cwd is None else cwd
    known = os.environ if environ is None else environ
    user = Path(known.get("XDG_CONFIG_HOME") or home_of(known) / ".config")
    return folder / "mcp.json", folder / ".mcp.json", user / "plait" / "mcp.json"
