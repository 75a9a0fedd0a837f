"""Asks before a configuration that was found in the working folder is used.

A cloned repository may bring an `mcp.json` that starts programs and sends variables elsewhere. What
was approved is remembered by the path of the file and a digest of what it says.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from plait._support.files import write_atomically
from plait.cli import terminal
from plait.cli.base import settings_of
from plait.client.config.raw_value import home_of
from plait.errors import ConfigError, Problem, UntrustedConfigError

if TYPE_CHECKING:
    from plait.cli.trust_preview import Preview
    from plait.client.config.document import FoundConfig

VARIABLE = "PLAIT_TRUST"
_YES = frozenset({"1", "true", "yes", "on"})
MAX_DIGESTS = 32
"""Approved contents of one file, such as those of several branches; the newest are kept."""

_ELSE = f"run this again with --trust; in CI set {VARIABLE}=1"
WAY_OUT = f"read it, then approve it with `plait trust approve`, or {_ELSE}"
WAY_OUT_OF_MANIFEST = f"read it, then name it with --manifest, or {_ELSE}"
"""`plait trust approve` reads no manifests of gateways."""


@dataclass(frozen=True, slots=True)
class Approval:
    """What was approved of one file."""

    path: str
    digests: tuple[str, ...]
    """The newest last."""
    approved_at: float
    """Seconds since 1970."""


class Approvals:
    """The approvals of a user: a private file for each path, replaced atomically."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        known = os.environ if environ is None else environ
        state = Path(known.get("XDG_STATE_HOME") or home_of(known) / ".local" / "state")
        self.folder = state / "plait" / "trust"

    def get(self, path: Path) -> Approval | None:
        """Return what was approved of a file."""
        return _read_approval(self._file_for(path))

    def add(self, path: Path, digest: str) -> None:
        """Approve a content of a file, besides those approved before."""
        known = self.get(path)
        earlier = [one for one in known.digests if one != digest] if known else []
        digests = (*earlier, digest)[-MAX_DIGESTS:]
        approval = Approval(_key(path), digests, time.time())
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.chmod(0o700)
        write_atomically(self._file_for(path), json.dumps(asdict(approval)) + "\n", mode=0o600)

    def revoke(self, path: Path) -> bool:
        """Forget what was approved of a file; return whether there was anything."""
        with suppress(FileNotFoundError):
            self._file_for(path).unlink()
            return True
        return False

    def all(self) -> list[Approval]:
        """Return every approval, by path."""
        found = [_read_approval(file) for file in self.folder.glob("*.json")]
        return sorted((one for one in found if one is not None), key=lambda one: one.path)

    def _file_for(self, path: Path) -> Path:
        return self.folder / f"{hashlib.sha256(_key(path).encode()).hexdigest()}.json"


def _key(path: Path) -> str:
    """Return the path by which a file is remembered: a folder may be reached by several."""
    return str(path.parent.resolve() / path.name)


def _read_approval(file: Path) -> Approval | None:
    """Read an approval; a file that others can write, or that is damaged, approves nothing."""
    try:
        if unsafe_because(file) is not None:
            return None
        data = cast("dict[str, Any]", json.loads(file.read_bytes()))
        return Approval(
            str(data["path"]), tuple(map(str, data["digests"])), float(data["approved_at"])
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None


def unsafe_because(path: Path, *, named: bool = False) -> str | None:
    """Return why a file cannot be relied on: others can write it, or somebody else owns it.

    A file that is `named` may belong to anybody.
    """
    if os.name == "nt":
        return None
    found = path.stat()
    if found.st_mode & stat.S_IWOTH:
        return "everybody on this machine can write it"
    owners = {0, os.geteuid()}
    if (caller := os.environ.get("SUDO_UID", "")).isdecimal() and os.geteuid() == 0:
        owners.add(int(caller))
    return None if named or found.st_uid in owners else "it belongs to another user"


@contextmanager
def trusted(ctx: click.Context, found: FoundConfig) -> Generator[None]:
    """Run a block that reads a configuration, after it is approved.

    Raises:
        UntrustedConfigError: It was found in the working folder, and is not approved.
        ConfigError: Others can write it, or it was changed while it was read.
    """
    chosen = settings_of(ctx).trust or _is_trusted_by_environment()
    _refuse_unsafe(found.path, named=found.origin == "named" or chosen)
    if found.origin != "folder" or _is_trusted_by_environment():
        yield
        return
    from plait.cli.trust_preview import preview_of

    preview = preview_of(found.path)
    _require_approval(ctx, preview)
    yield
    if preview_of(found.path).digest != preview.digest:
        raise ConfigError(f"{found.path} was changed while it was read; run this again")


def require_trust(ctx: click.Context, preview: Preview) -> None:
    """Ask before a file is used that was found in the working folder, and is no configuration.

    Raises:
        UntrustedConfigError: It is not approved.
        ConfigError: Others can write it.
    """
    by_environment = _is_trusted_by_environment()
    _refuse_unsafe(preview.path, named=settings_of(ctx).trust or by_environment)
    if not by_environment:
        _require_approval(ctx, preview)


def is_remembered(path: Path, digest: str) -> bool:
    """Return whether this content of a file is approved."""
    known = Approvals().get(path)
    return known is not None and digest in known.digests


def approve_own(path: Path) -> None:
    """Approve a file that the user has just made with a command."""
    from plait.cli.trust_preview import preview_of

    with suppress(ConfigError, OSError):
        Approvals().add(path, preview_of(path).digest)


def is_approved(path: Path) -> bool:
    """Return whether the content of a file is approved."""
    from plait.cli.trust_preview import preview_of

    approval = Approvals().get(path)
    with suppress(ConfigError):
        return approval is not None and preview_of(path).digest in approval.digests
    return False


def _is_trusted_by_environment() -> bool:
    return os.environ.get(VARIABLE, "").strip().lower() in _YES


def _refuse_unsafe(path: Path, *, named: bool) -> None:
    reason = unsafe_because(path, named=named)
    if reason is None:
        return
    fix = f"chmod o-w {path}" if "write" in reason else f"name it if you trust it: --config {path}"
    problem = Problem(
        file=str(path),
        path="",
        code="unsafe_file",
        message=f"is not used: {reason}",
        suggestion=fix,
    )
    raise ConfigError.from_problems([problem])


def _require_approval(ctx: click.Context, preview: Preview) -> None:
    approvals = Approvals()
    known = approvals.get(preview.path)
    if known is not None and preview.digest in known.digests:
        return
    if not settings_of(ctx).trust:
        state = "is not approved" if known is None else "has changed since you approved it"
        headline = f"{preview.path} was found in this folder, and {state}"
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UntrustedConfigError("\n".join([headline, *preview.lines()]))
        print_preview(preview, f"{headline}.", err=True)
        click.echo("Programs run with your rights.", err=True)
        if not click.confirm("Approve it?", default=False, err=True):
            raise UntrustedConfigError(f"{preview.path} is not approved")
    try:
        approvals.add(preview.path, preview.digest)
    except OSError as error:
        reason = f"cannot remember the approval in {approvals.folder}: {error.strerror}"
        terminal.print_aside("warning", reason, colour="yellow")


def print_preview(preview: Preview, headline: str, *, err: bool = False) -> None:
    """Print what a configuration would do, on stdout or stderr."""
    stream = sys.stderr if err else sys.stdout
    click.echo(terminal.visible(headline), err=err)
    for line in preview.lines():
        is_name = not line.startswith("  ")
        shown = terminal.wrapped(f"  {line}", stream, indent=14)
        click.echo(click.style(f"\n{shown}", bold=True) if is_name else shown, err=err)
    click.echo(err=err)
