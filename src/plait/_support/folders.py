"""Where plait keeps what can be found out again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the cache folder: `$PLAIT_CACHE_DIR`, or the user's cache."""
    known = os.environ if environ is None else environ
    if named := known.get("PLAIT_CACHE_DIR"):
        return Path(named).expanduser()
    return Path(known.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "plait"
