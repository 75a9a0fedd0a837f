"""The files of conversations: a trace for each, in a folder of the user's state."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from plait.client.config.raw_value import home_of
from plait.errors import TraceFormatError
from plait.traces.file import read_traces
from plait.traces.trace import Trace

_ILLEGAL = re.compile(r"[^A-Za-z0-9._-]+")


def state_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder for what plait keeps of a user."""
    known = os.environ if environ is None else environ
    return Path(known.get("XDG_STATE_HOME") or home_of(known) / ".local" / "state") / "plait"


def conversations_folder() -> Path:
    """Return the folder of the conversations in the working folder."""
    here = Path.cwd()
    digest = hashlib.sha256(os.fsencode(here)).hexdigest()[:12]
    return state_folder() / "chats" / f"{_ILLEGAL.sub('_', here.name)[:40]}-{digest}"


def new_conversation() -> Path:
    """Return the file for a new conversation in the working folder; only the user can read it."""
    folder = conversations_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder / f"{datetime.now(UTC):%Y-%m-%dT%H%M%S}-{os.getpid()}.jsonl"


def newest_conversation() -> Path:
    """Return the file of the newest conversation in the working folder.

    Raises:
        TraceFormatError: There is none.
    """
    files = [(file.stat().st_mtime, file) for file in conversations_folder().glob("*.jsonl")]
    if not files:
        raise TraceFormatError(
            "there is no conversation in this folder to continue: name a trace, or use plait chat"
        )
    return max(files)[1]


def read_conversation(path: str | Path) -> Trace:
    """Read the last run of a file whose conversation can be continued.

    A run that failed before the model answered is not part of the conversation.

    Raises:
        TraceFormatError: The file is not a trace, or has no such run.
        OSError: The file cannot be read.
    """
    for trace in reversed(read_traces(path)):
        if is_continued(trace):
            return trace
    raise TraceFormatError(f"{path}: no run can be continued")


def is_continued(trace: Trace) -> bool:
    """Return whether a run is part of the conversation after it."""
    if trace.started is None or trace.started.omitted:
        return False
    return trace.status != "failed" or bool(trace.messages)
