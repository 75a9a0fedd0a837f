"""Asks before a configuration that was found in the working folder is used, and shows what it does.

A cloned repository may bring an `mcp.json` that starts programs and sends variables elsewhere. What
was approved is remembered by the path of the file and a digest of what it says. What it would do is
read from the file as it is written, before any of it is done.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import stat
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from plait._support.dotenv import DotenvError, parse_dotenv
from plait._support.files import write_atomically
from plait._support.redact import HIDDEN, looks_secret
from plait.cli import terminal
from plait.cli.base import settings_of
from plait.cli.terminal import visible
from plait.client.config.document import load_document, user_path
from plait.client.config.keys import CLIENT_KEYS, SERVER_LISTS, server_keys
from plait.client.config.oauth_settings import OAUTH_KEYS
from plait.client.config.raw_value import (
    InputRequest,
    KeyTable,
    Location,
    Problems,
    Reference,
    TemplateError,
    Variables,
    as_list,
    as_mapping,
    parse_template,
    state_folder,
)
from plait.client.config.read import find_layout
from plait.client.config.secrets import secret_values
from plait.client.config.servers import StdioServer
from plait.client.config.urls import public_url
from plait.errors import ConfigError, Problem, UntrustedConfigError

if TYPE_CHECKING:
    from plait.cli.found_config import FoundConfig

MAX_LINE_CHARACTERS = 2000
"""Characters of one line; what is left out is counted."""

_BUILTIN = frozenset(
    {"workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator", "/"}
)
_PLAIN_SECRET = re.compile(r"[\w.+/=~-]+")
"""Only such a value is hidden in a command line: nothing in it could be a command of a shell."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What a configuration would do, and a digest of everything that decides it."""

    path: Path
    digest: str
    servers: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    """Each server, and for each thing it does a verb and an object."""
    files: tuple[Path, ...] = ()
    """The files that decide with it what agents get: env files, the policy and the lockfile."""

    def lines(self) -> Iterator[str]:
        """Yield lines that are safe for a terminal, without a line break in any of them."""
        for name, facts in self.servers:
            yield _one_line(name)
            for verb, text in facts:
                yield f"  {verb:<9} {_one_line(text)}"


def preview_of(path: Path) -> Preview:
    """Read a configuration, without starting, asking or contacting anything.

    Raises:
        ConfigError: It cannot be read.
    """
    from plait.client.catalog.lock import LOCKFILE_NAME

    problems = Problems()
    content = _bytes_of(path)
    document = load_document(path, problems)
    layout = find_layout(document.value, document.location) if document else None
    if problems.errors or document is None or layout is None:
        raise ConfigError.from_problems(problems.errors)
    variables = Variables.of(None, document.folder, layout.inputs)
    digest = hashlib.sha256(_with_label("configuration", content))
    options = _by_name(layout.options, CLIENT_KEYS)
    entries = {str(name): _by_name(one, server_keys(None)) for name, one in layout.servers.items()}
    servers = [(name, tuple(_facts(entry, variables))) for name, entry in entries.items()]
    verbs = (("record", "writes"), ("replay", "reads"))
    facts = [(verb, str(options[name])) for name, verb in verbs if options.get(name) is not None]
    if options.get("sampling"):
        facts.append(("may", "use your model"))
    used = {key: value for key, value in options.items() if key not in SERVER_LISTS}
    if references := _references_in(used):
        facts.append(("use", ", ".join(references)))
    # The values that are used where nothing else is typed.
    defaults = [
        ("sets", f"{one.id}={shlex.quote(one.default)}")
        for one in layout.inputs.values()
        if one.default is not None
    ]
    servers += [
        (name, tuple(does)) for name, does in (("options", facts), ("inputs", defaults)) if does
    ]
    # The env files and the policy that the configuration names decide it, too.
    named = [_path_in(entry.get("env_file"), variables) for entry in entries.values()]
    named.append(_path_in(options.get("policy"), variables))
    files = sorted({file for file in named if file is not None})
    for file in files:
        digest.update(_with_label(str(file), _bytes_of(file)))
    locked = _path_in(options.get("lockfile"), variables) or variables.folder / LOCKFILE_NAME
    return Preview(path, f"sha256:{digest.hexdigest()}", tuple(servers), (*files, locked))


def _by_name(value: object, keys: KeyTable) -> dict[str, object]:
    """Return the entries of an object by the names of their keys, however these are spelled."""
    found: dict[str, object] = {}
    for spelling, entry in (as_mapping(value) or {}).items():
        key = keys.by_spelling.get(str(spelling))
        found[str(spelling) if key is None else key.name] = entry
    return found


def _with_label(label: str, content: bytes) -> bytes:
    return f"{len(label.encode())}:{label}:{len(content)}:".encode() + content


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _path_in(value: object, variables: Variables) -> Path | None:
    if not isinstance(value, str):
        return None
    name = variables.expand(value, Location(Problems()))
    if not name or "\0" in name:
        return None
    # Not by its text alone: behind a link, `..` leads elsewhere than it seems.
    return Path(os.path.realpath(variables.folder / user_path(name)))


def _facts(entry: Mapping[str, object], variables: Variables) -> Iterator[tuple[str, str]]:
    """Yield what one server does."""
    if entry.get("disabled") is True or entry.get("enabled") is False:
        yield "is", "disabled"
    command, args = entry.get("command"), as_list(entry.get("args")) or ()
    if command is not None:
        yield "runs", _command_line(str(command), tuple(map(str, args)))
    if (folder := entry.get("cwd")) is not None:
        yield "in", str(folder)
    if (url := entry.get("url")) is not None:
        yield "contacts", public_url(str(url))
    settings = [
        f"{name}={HIDDEN if looks_secret(str(name)) else shlex.quote(str(value))}"
        for name, value in (as_mapping(entry.get("env")) or {}).items()
        if not (isinstance(value, str) and "${" in value)  # a reference, named below
    ]
    if settings:
        yield "sets", ", ".join(settings)
    if (file := _path_in(entry.get("env_file"), variables)) is not None:
        try:
            names = ", ".join(parse_dotenv(_bytes_of(file).decode("utf-8-sig")))
            effect = f"sets {names or 'nothing'}"
        except (DotenvError, UnicodeDecodeError):
            effect = "cannot be read"
        yield "reads", f"{file} ({effect})"
    if inherited := entry.get("inherit_env"):
        names = as_list(inherited)
        every = "every variable of your environment"
        yield "gets", every if names is None else ", ".join(map(str, names))
    if references := _references_in(entry):
        yield "gets", ", ".join(references)
    if (auth := entry.get("auth")) is not None:
        sign_in = _by_name(auth, OAUTH_KEYS)
        issuer = sign_in.get("issuer")
        where = "" if issuer is None else f" at {public_url(str(issuer))}"
        yield "signs in", f"with OAuth{where}"
        if (file := _path_in(sign_in.get("private_key_file"), variables)) is not None:
            yield "reads", str(file)
    if entry.get("sampling"):
        yield "may", "use your model"
    if entry.get("trust_instructions"):
        yield "may", "instruct your agents"


def _command_line(command: str, args: tuple[str, ...]) -> str:
    """Return a command line as it is written, without literal secrets."""
    server = StdioServer(command=command, args=args)
    secrets = [one for one in secret_values(server) if _PLAIN_SECRET.fullmatch(one)]
    words: list[str] = []
    for word in (command, *args):
        shown = shlex.quote(word)
        for secret in secrets:
            shown = shown.replace(secret, HIDDEN)
        words.append(shown)
    return " ".join(words)


def _references_in(value: object) -> list[str]:
    """Return each variable of yours that a value uses, with its places."""
    places: dict[str, list[str]] = {}
    for place, text in _texts_in(value):
        try:
            parts = parse_template(text)
        except TemplateError:
            continue
        for reference in _references(parts):
            found = places.setdefault(reference, [])
            if place not in found:
                found.append(place)
    return [f"{name} ({', '.join(found)})" for name, found in places.items()]


def _texts_in(value: object, place: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield place, value
    elif (entries := as_mapping(value)) is not None:
        for key, entry in entries.items():
            yield from _texts_in(entry, f"{place}.{key}" if place else str(key))
    elif (items := as_list(value)) is not None:
        for item in items:
            yield from _texts_in(item, place)


def _references(parts: tuple[str | Reference, ...]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            continue
        if part.source == "input":
            yield f"${InputRequest(id=part.name).variable} or what you type"
        elif part.source == "env" or part.name not in _BUILTIN:
            yield f"${part.name}"
        yield from _references(part.default or ())


def _one_line(text: str) -> str:
    """Escape what would act on a terminal or break the line; shorten what would fill it."""
    for character, shown in (("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = text.replace(character, shown)
    text = visible(text)
    if len(text) > MAX_LINE_CHARACTERS:
        more = f"{len(text) - MAX_LINE_CHARACTERS:,} characters more"
        text = f"{text[:MAX_LINE_CHARACTERS]}… and {more}: read the file"
    return text


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
        self.folder = state_folder(environ) / "trust"

    def get(self, path: Path) -> Approval | None:
        """Return what was approved of a file."""
        return _read_approval(self.file_for(path))

    def add(self, path: Path, digest: str) -> None:
        """Approve a content of a file, besides those approved before."""
        known = self.get(path)
        earlier = [one for one in known.digests if one != digest] if known else []
        digests = (*earlier, digest)[-MAX_DIGESTS:]
        approval = Approval(_key(path), digests, time.time())
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.chmod(0o700)
        write_atomically(self.file_for(path), json.dumps(asdict(approval)) + "\n", mode=0o600)

    def revoke(self, path: Path) -> bool:
        """Forget what was approved of a file; return whether there was anything."""
        with suppress(FileNotFoundError):
            self.file_for(path).unlink()
            return True
        return False

    def all(self) -> list[Approval]:
        """Return every approval, by path."""
        found = [_read_approval(file) for file in self.folder.glob("*.json")]
        return sorted((one for one in found if one is not None), key=lambda one: one.path)

    def file_for(self, path: Path) -> Path:
        """Return the file with what was approved of a file."""
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
def trusted(ctx: click.Context, found: FoundConfig, *, may_ask: bool = True) -> Generator[None]:
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
    preview = preview_of(found.path)
    _require_approval(ctx, preview, may_ask=may_ask)
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


def approve(path: Path, digest_of: Callable[[Path], str] | None = None) -> None:
    """Approve a file that the user has just made or changed with a command."""
    with suppress(ConfigError, OSError):
        Approvals().add(path, digest_of(path) if digest_of else preview_of(path).digest)


@contextmanager
def own_change(path: Path, digest_of: Callable[[Path], str] | None = None) -> Generator[None]:
    """Keep a file approved that the user changes with a command, or makes."""
    is_own, known = not path.is_file(), Approvals().get(path)
    with suppress(ConfigError):
        if not is_own and known is not None:
            digest = digest_of(path) if digest_of else preview_of(path).digest
            is_own = digest in known.digests
    yield
    if is_own:
        approve(path, digest_of)


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


def _require_approval(ctx: click.Context, preview: Preview, *, may_ask: bool = True) -> None:
    approvals = Approvals()
    known = approvals.get(preview.path)
    if known is not None and preview.digest in known.digests:
        return
    if not settings_of(ctx).trust:
        state = "is not approved" if known is None else "has changed since you approved it"
        headline = f"{preview.path} was found in this folder, and {state}"
        if not (may_ask and sys.stdin.isatty() and sys.stderr.isatty()):
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
