"""Who a server is: what it declares, and its command or address without what may be secret.

An argument is shown only if it is surely harmless. Of the others a slow hash is kept, so that a
change is found; not of those that look secret, which may change at any time.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePath
from urllib.parse import parse_qsl, urlsplit

from plait._support.redact import HIDDEN, Redactor, looks_secret
from plait.client.config.secrets import secret_values, secrets_in_argument
from plait.client.config.servers import RemoteOptions, ServerConfig, StdioServer
from plait.client.config.urls import public_url

_RUNNERS = frozenset(
    {"npx", "bunx", "uvx", "pipx", "npm", "pnpm", "yarn", "bun", "uv", "deno", "node", "tsx"}
    | {"python", "python3", "docker", "podman", "go", "java", "ruby", "dotnet", "bash", "sh"}
)
"""Programs whose first argument names another program, which a reviewer wants to read."""
_SUBCOMMANDS = frozenset({"run", "exec", "dlx", "x", "tool"})
_SWITCHES = frozenset(
    {"-y", "--yes", "-q", "--quiet", "-i", "-t", "-it", "--rm", "--interactive", "-m", "-u", "-B"}
    | {"-I", "-E", "-S", "-s", "-jar", "--isolated", "--silent", "--no-cache", "--offline"}
)
"""Flags of those programs that take no value."""
_SHORT_SECRET = frozenset({"-p", "-P", "-k", "-t", "-s", "-a", "-w"})
"""Flags that are used for passwords, keys and tokens."""
_WORDS = frozenset(
    {"stdio", "http", "sse", "streamable-http", "serve", "start", "mcp", "server", "--", "-"}
    | {"true", "false", "yes", "no", "on", "off", "debug", "info", "warning", "error", "json"}
    | _SUBCOMMANDS
)

_FLAG = re.compile(r"--[A-Za-z][\w.-]*|-[A-Za-z]|-jar|-it")
_PAIR = re.compile(r"(-{0,2}[A-Za-z_][\w.-]*)(=)(.*)", re.DOTALL)
_NUMBER = re.compile(r"\d{1,5}|\d+(?:\.\d+){1,3}")
_FILES = "py|js|mjs|cjs|ts|rb|sh|jar|wasm|json|toml|yaml|yml|ini|db|sqlite|sqlite3"
_PATH = re.compile(rf"(?:~|\.{{1,2}})?(?:/[\w.@+ -]+)+/?|\.{{1,2}}|~|/|[\w./-]+\.(?:{_FILES})")
_PACKAGE = re.compile(r"@[a-z0-9~-][\w.~-]*/[\w.~-]+(?:@[\w.^~-]+)?")
_NAME = re.compile(r"(?:[a-z0-9.-]+(?::\d+)?/)*[A-Za-z][\w.-]*(?:\[\w+\])?(?:(?:@|:|==)[\w.+-]+)?")
_RANDOM = re.compile(r"(?=[^/]*\d)(?=[^/]*[A-Za-z])[A-Za-z0-9_=+-]{20,}")
_STEP = re.compile(r"(?:[a-z]{1,16}(?:[_-][a-z]{1,16})*|v\d{1,3})?")
_VARIABLE = re.compile(r"\$\{[^{}]*\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The name and version that a server declares, and where it is."""

    name: str | None = None
    version: str | None = None
    transport: str
    target: str = ""
    """The command or the URL, with variables as they are written, and without secrets."""
    cwd: str | None = None
    env: tuple[str, ...] = ()
    """The names of the variables that a program gets."""
    hidden: str | None = None
    """The hash of what is not shown in `target`, but for what looks secret."""

    @property
    def address(self) -> str:
        """Where the server is, in one line."""
        parts = [self.transport, self.target, f"in {self.cwd}" if self.cwd else ""]
        parts += [f"with {', '.join(self.env)}"] if self.env else []
        parts += [f"({self.hidden})"] if self.hidden else []
        return " ".join(filter(None, parts))


def identity_of(server: ServerConfig, declared: Mapping[str, str] | None, folder: Path) -> Identity:
    """Describe the identity of a server; paths are relative to the folder, or to the home.

    `declared` is the name and the version that the server reports.
    """
    home, redact = folder.resolve(), Redactor(secret_values(server))
    about = {key: redact(text) for key, text in (declared or {}).items()}
    target, hashed = "", list[str]()
    cwd, env = None, list[str]()
    if isinstance(server, RemoteOptions):
        url = server.templates.get(server.url, server.url)
        target, hashed = public_url(url), _plain_parameters(url)
    elif isinstance(server, StdioServer):
        target, hashed = _command_line(server, home)
        cwd = None if server.cwd is None else _portable(server.cwd, home)
        inherited = ["*"] if server.inherit_env is True else server.inherit_env or ()
        env = [*server.fixed_env, *inherited]
    return Identity(
        name=about.get("name"),
        version=about.get("version"),
        transport=server.transport,
        target=target,
        cwd=cwd,
        env=tuple(sorted(env)),
        hidden=_slow_hash("\0".join(hashed)) if hashed else None,
    )


def _command_line(server: StdioServer, folder: Path) -> tuple[str, list[str]]:
    """Return what is shown of a command, and what is only hashed."""
    words = [server.command]
    if " " in server.command and not _PATH.fullmatch(server.command):
        words = server.command.split()  # a whole command line
    program, *arguments = (
        _portable(server.templates.get(word, word), folder) for word in (*words, *server.args)
    )
    shown, hashed, flag = [program], list[str](), ""
    is_named = PurePath(program).stem.lower() not in _RUNNERS
    for word in arguments:
        before, flag = flag, word if _FLAG.fullmatch(word) else ""
        if flag:
            shown.append(word)
        elif (
            not is_named
            and before in ("", *_SWITCHES)
            and any(known.fullmatch(word) for known in (_NAME, _PACKAGE, _PATH))
            and not (_is_random(word) or any(secrets_in_argument(word)))
        ):
            is_named = word not in _SUBCOMMANDS
            shown.append(word)
        else:
            text, rest = _shown(word, "" if before in _SWITCHES - _SHORT_SECRET else before)
            shown.append(text)
            hashed += [] if rest is None else [f"{len(shown) - 1} {rest}"]
    line = " ".join(shown)
    for secret in server.secrets:
        line = line.replace(secret, HIDDEN)
    return line, hashed


def _shown(word: str, flag: str) -> tuple[str, str | None]:
    """Return what is shown of an argument, and what is hashed of it, if anything."""
    if (pair := _PAIR.fullmatch(word)) and "://" not in pair[1]:
        name, sign, value = pair.groups()
        text, rest = _shown(value, name if name.startswith("--") else f"--{name}")
        return f"{name}{sign}{text}", rest
    if flag in _SHORT_SECRET or (flag and looks_secret(flag.lstrip("-"))):
        return (word if _VARIABLE.fullmatch(word) else HIDDEN), None
    plain = _VARIABLE.sub("", word)
    is_number = flag.startswith("--") and _NUMBER.fullmatch(plain)
    is_word = plain.lower() in _WORDS or _PACKAGE.fullmatch(plain) or _PATH.fullmatch(plain)
    if not plain or is_number or (is_word and not _is_random(plain)):
        return word, None
    is_url = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", word) is not None
    text, rest = _shown_url(word) if is_url else (HIDDEN, word)
    has_secret = any(secrets_in_argument(plain)) or Redactor()(plain) != plain
    return text, None if has_secret else rest


def _shown_url(url: str) -> tuple[str, str | None]:
    """Return a URL without the steps of its path that are no plain words, and what is hashed.

    Programs get keys of any form in the path: a bot's, a webhook's, a personal address.
    """
    scheme, _, place = public_url(url).partition("://")
    host, *steps = place.split("/")
    hidden = [step for step in steps if step and not _STEP.fullmatch(_VARIABLE.sub("", step))]
    path = ["…" if step in hidden else step for step in steps]
    return "/".join([f"{scheme}://{host}", *path]), "&".join(
        [*hidden, *_plain_parameters(url)]
    ) or None


def _plain_parameters(url: str) -> list[str]:
    """Return the parameters of a URL that do not look secret, with variables as written."""
    pairs = parse_qsl(urlsplit(url).query, keep_blank_values=True)
    return [f"{name}={value}" for name, value in pairs if not looks_secret(name)]


def _is_random(word: str) -> bool:
    return any(_RANDOM.fullmatch(step) for step in re.split(r"[/@:]", word))


def _portable(argument: str, folder: Path) -> str:
    for place, short in ((folder, "."), (Path.home(), "~")):
        whole = str(place)
        if argument == whole or argument.startswith(f"{whole}/"):
            return short + argument.removeprefix(whole)
    return argument


@lru_cache(maxsize=256)
def _slow_hash(text: str) -> str:
    """Hash a text so that short values cannot be found by trying them all."""
    data = text.encode("utf-8", "surrogatepass")
    made = hashlib.scrypt(data, salt=b"plait lock", n=2**14, r=8, p=1, dklen=16)
    return f"scrypt:{made.hex()}"
