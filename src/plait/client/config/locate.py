"""Finding the configuration file that a command should use."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from plait.client.config.document import user_path
from plait.client.config.variables import home_of
from plait.errors import ConfigError, Problem

ENVIRONMENT_VARIABLE = "PLAIT_CONFIG"


def find_config(
    explicit: str | None = None,
    *,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Path:
    """Return the configuration file: the named one, else the first of the default paths.

    Raises:
        ConfigError: The named file does not exist, or there is none at any default path.
    """
    known = os.environ if environ is None else environ
    if explicit is not None:
        return _existing(explicit, "named by --config")
    if named := known.get(ENVIRONMENT_VARIABLE):
        return _existing(named, f"named by ${ENVIRONMENT_VARIABLE}")
    places = config_places(cwd=cwd, environ=known)
    for path in places:
        if path.is_file():
            return path
    looked = ", ".join(_short(path, known) for path in places)
    raise _error(
        None,
        f"no configuration found; looked for --config, ${ENVIRONMENT_VARIABLE}, {looked}",
        "`plait init` creates one",
    )


def config_places(
    *, cwd: Path | None = None, environ: Mapping[str, str] | None = None
) -> tuple[Path, ...]:
    """Return the default paths of a configuration, in order."""
    folder = Path.cwd() if cwd is None else cwd
    known = os.environ if environ is None else environ
    user = Path(known.get("XDG_CONFIG_HOME") or home_of(known) / ".config")
    return folder / "mcp.json", folder / ".mcp.json", user / "plait" / "mcp.json"


def _existing(name: str, how: str) -> Path:
    path = user_path(name)
    if path.is_file():
        return path
    reason = "is a folder" if path.is_dir() else "does not exist"
    raise _error(str(path), f"the configuration {how} {reason}", "`plait init` creates one")


def _error(file: str | None, message: str, suggestion: str) -> ConfigError:
    problem = Problem(
        file=file, path="", code="file_missing", message=message, suggestion=suggestion
    )
    return ConfigError.from_problems([problem])


def _short(path: Path, environ: Mapping[str, str]) -> str:
    home = home_of(environ)
    return f"~/{path.relative_to(home).as_posix()}" if path.is_relative_to(home) else str(path)
