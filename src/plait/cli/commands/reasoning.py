"""`plait reasoning`: serve the reasoning tools, and inspect sessions."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from rich.console import Group
from rich.text import Text
from rich.tree import Tree

from plait._support.exception_groups import one_line
from plait._support.files import write_atomically, write_private
from plait.cli.base import ExampleGroup, json_option, repeatable
from plait.cli.terminal import (
    plain_table,
    print_aside,
    print_json,
    print_rich,
    print_text,
    visible,
    visible_line,
)
from plait.cli.trust import own_change
from plait.errors import ConfigError, RefusedError

if TYPE_CHECKING:
    from plait.reasoning.backends.settings import BackendPreference, Profile, ReasoningSettings
    from plait.reasoning.diagram import SessionDocument
    from plait.reasoning.storage.database import Database
    from plait.reasoning.storage.sql import SqlStorage
    from plait.reasoning.values import GraphNode, Session, Thought

T = TypeVar("T")

_LAST_SECONDS = 5.0
"""How long a server whose input ended may take to close the database."""

_BACKENDS = ("langbase", "model", "openai", "sampling", "local", "host", "scripted")
_CLIENTS = ("claude-desktop", "claude-code", "cursor", "vscode", "plait")
_FORMATS = ("json", "markdown", "mermaid", "dot", "svg")

_PROFILES = ("full", "compact")

_profile_option = click.option(
    "--profile",
    type=click.Choice(_PROFILES),
    help="The tools: 29 of them, or seven compact ones for models with little context.",
)
_db_option = click.option(
    "--db",
    metavar="PATH|URL",
    help="The database: a file, or postgresql://… [default: $DATABASE_PATH, else "
    "~/.local/share/plait/reasoning.db]",
)
_yes_option = click.option("--yes", is_flag=True, help="Do not prompt for confirmation.")


def _settings(preference: BackendPreference | None = None) -> ReasoningSettings:
    from plait.reasoning.backends.settings import read_settings

    settings = read_settings(os.environ, dotenv=Path(".env"), preference=preference)
    for note in settings.notes:
        print_aside("note", note, colour="cyan")
    return settings


def _database(db: str | None, settings: ReasoningSettings | None = None) -> Database:
    from plait.reasoning.serving.service import database_for

    return database_for(db, settings or _settings())


def _in_store(db: str | None, work: Callable[[SqlStorage], Awaitable[T]]) -> T:
    """Run `work` with an existing store; a missing one is an error, not created."""
    database = _database(db)
    from plait.reasoning.storage.sql import SqlStorage

    if database.is_sqlite and not Path(str(database)).exists():
        raise ConfigError(f"there is no database at {database}")

    async def main() -> T:
        store = SqlStorage(database)
        try:
            await store.open()
            return await work(store)
        finally:
            await store.aclose()

    return asyncio.run(main())


async def _session_named(store: SqlStorage, name: str) -> Session:
    """Find a session by its id or a prefix of it; `last` is the most recently changed."""
    if (found := await store.get_session(name)) is not None:
        return found
    lines = await store.list_sessions(limit=1 if name == "last" else 10_000)
    fitting = [line.session for line in lines if name == "last" or line.session.id.startswith(name)]
    if len(fitting) != 1:
        many = f"{len(fitting)} sessions start with" if fitting else "there is no session"
        raise RefusedError(f"{many} {name!r}; plait reasoning sessions lists them")
    return fitting[0]


def _document(db: str | None, session: str) -> SessionDocument:
    async def read(store: SqlStorage) -> SessionDocument:
        from plait.reasoning.diagram import read_document

        return await read_document(store, await _session_named(store, session))

    return _in_store(db, read)


@click.group(cls=ExampleGroup)
def reasoning() -> None:
    """Serve the reasoning tools, and inspect sessions.

    Examples:
        plait reasoning serve                 an MCP server on stdio
        plait reasoning install cursor        add it to Cursor
        plait reasoning show last             the last session as a tree
    """


@reasoning.command()
@click.option("--http", metavar="HOST:PORT", help="Serve Streamable HTTP instead of stdio.")
@repeatable("--allowed-host", "allowed_hosts", "NAME", "A host name of the HTTP server")
@click.option(
    "--backend", type=click.Choice(_BACKENDS), help="The backend that generates thoughts."
)
@click.option("--model", metavar="NAME", help="provider:name, or the model of --base-url.")
@click.option("--base-url", metavar="URL", help="An OpenAI-compatible endpoint.")
@click.option("--script", metavar="FILE", help="Replies of the scripted backend, for tests.")
@_profile_option
@_db_option
def serve(
    http: str | None,
    allowed_hosts: tuple[str, ...],
    profile: Profile | None,
    db: str | None,
    **preference: Any,
) -> None:
    """Serve the reasoning tools to MCP clients.

    Without a model, the calling model generates the thoughts.
    HTTP beyond this machine needs a token in PLAIT_REASONING_TOKEN.

    Examples:
        plait reasoning serve
        plait reasoning serve --profile compact
        plait reasoning serve --model anthropic:claude-sonnet-4-5
        plait reasoning serve --http 127.0.0.1:8765
        plait reasoning serve --http :8765 --db postgresql://user@host/reasoning
    """
    from plait.reasoning.backends.settings import BackendPreference

    settings = _settings(BackendPreference(**preference))
    settings = settings.model_copy(update={"profile": profile or settings.profile})
    database = _database(db, settings)
    from plait.reasoning.serving import http_server as over_http
    from plait.reasoning.serving import service as serving
    from plait.reasoning.serving.mcp_server import serve_stdio

    serving.log_to_stderr(settings.log_level, settings.log_format)
    options = None
    if http:
        token = os.environ.get("PLAIT_REASONING_TOKEN") or None
        named = os.environ.get("PLAIT_REASONING_TOKENS", "").strip()
        tokens = over_http.tokens_from_text(named) if named else {}
        options = over_http.http_options_from_text(
            http, token=token, tokens=tokens, allowed_hosts=allowed_hosts
        )

    async def run() -> None:
        async with serving.open_service(settings, database=database) as service:
            for note in service.choice.notes:
                serving.announce(f"note: {note}", settings.log_format)
            if options is None:
                serving.announce(f"{service.start_line()}, on stdio", settings.log_format)
                await serve_stdio(service)
                serving.end_process_within(_LAST_SECONDS)
                return
            with over_http.listener_for(options) as listener:
                where = f"listening on {over_http.mcp_url(listener)}"
                serving.announce(f"{service.start_line()}, {where}", settings.log_format)
                await over_http.serve_http(service, options, listener)

    asyncio.run(run())


@reasoning.command()
@click.option("--limit", default=20, show_default=True, help="Maximum number of sessions.")
@click.option(
    "--status", type=click.Choice(("open", "concluded")), help="Only sessions with this status."
)
@_db_option
@json_option
def sessions(limit: int, status: str | None, db: str | None, as_json: bool) -> None:
    """List sessions, the most recently changed first.

    Examples:
        plait reasoning sessions
        plait reasoning sessions --status concluded --json
    """
    from plait.reasoning.modes.sessions import session_info
    from plait.reasoning.results import result_data

    lines = _in_store(db, lambda store: store.list_sessions(limit=limit, status=status))
    found = [result_data(session_info(line)) for line in lines]
    if as_json:
        print_json(found)
        return
    titles = ("session", "changed", "mode", "status", "thoughts", "about")
    table = plain_table(*titles, dispensable=("changed", "thoughts", "status", "mode"))
    for one in found:
        changed = str(one["updated_at"])[:16].replace("T", " ")
        facts = (one["session_id"], changed, one["mode"], one["status"], one["thoughts"])
        table.add_row(*map(str, facts), visible(str(one["title"])))
    print_rich(table)


@reasoning.command()
@click.argument("session")
@_db_option
def show(session: str, db: str | None) -> None:
    """Show SESSION: its thoughts as a tree and its graphs, with scores.

    SESSION is an id, the beginning of one, or "last".

    Examples:
        plait reasoning show last
        plait reasoning show 3f2a
    """
    print_rich(session_tree(_document(db, session)))


@reasoning.command()
@click.argument("text")
@click.option("--limit", default=20, show_default=True, help="Maximum number of thoughts.")
@_db_option
@json_option
def search(text: str, limit: int, db: str | None, as_json: bool) -> None:
    """Find thoughts that contain TEXT, newest first.

    Examples:
        plait reasoning search "cache invalidation"
    """
    from plait.reasoning.values import public_data

    found = _in_store(db, lambda store: store.search_thoughts(text, limit=limit))
    if as_json:
        print_json([public_data(one) for one in found])
        return
    for one in found:
        click.echo(f"{one.session_id}  {visible_line(one.content)[:100]}")


@reasoning.command()
@click.argument("session")
@click.option(
    "--format", "kind", type=click.Choice(_FORMATS), default="markdown", help="The format."
)
@click.option("--html", "as_html", is_flag=True, help="One HTML file: graph, tree and steps.")
@click.option("--output", metavar="FILE", help="Write to this file instead of stdout.")
@_db_option
def export(session: str, kind: str, as_html: bool, output: str | None, db: str | None) -> None:
    """Export SESSION as a document.

    Examples:
        plait reasoning export last > session.md
        plait reasoning export last --format svg --output session.svg
        plait reasoning export last --html --output session.html
    """
    from plait.reasoning.export import EXPORTERS
    from plait.reasoning.html import thinking_page

    found = _document(db, session)
    document = thinking_page(found) if as_html else EXPORTERS[kind](found).content
    if output:
        write_private(Path(output), document)
    else:
        print_text(document)


@reasoning.command()
@click.argument("session")
@_yes_option
@_db_option
def delete(session: str, yes: bool, db: str | None) -> None:
    """Delete SESSION with everything in it.

    Examples:
        plait reasoning delete 3f2a --yes
    """

    async def delete_session(store: SqlStorage) -> None:
        found = await _session_named(store, session)
        if not yes:
            click.confirm(f"Delete session {found.id}?", abort=True, err=True)
        await store.delete_session(found.id)
        click.echo(f"deleted {found.id}", err=True)

    _in_store(db, delete_session)


@reasoning.command()
@_db_option
@json_option
def stats(db: str | None, as_json: bool) -> None:
    """Show latency, failures and token usage by tool, backend and model.

    Examples:
        plait reasoning stats --json
    """
    use = _in_store(db, lambda store: store.get_usage())
    if as_json:
        print_json([asdict(one) for one in use])
        return
    titles = ("tool", "backend", "model", "calls", "failed", "average", "tokens in", "tokens out")
    unneeded = ("backend", "tokens in", "tokens out", "model", "average")
    table = plain_table(*titles, dispensable=unneeded)
    for one in use:
        latency = "–" if one.average_latency_ms is None else f"{one.average_latency_ms:.0f} ms"
        facts = (one.requests, one.failures, latency, one.input_tokens, one.output_tokens)
        table.add_row(one.tool_name, one.backend or "–", one.model or "–", *map(str, facts))
    print_rich(table)


@reasoning.command()
@_db_option
def migrate(db: str | None) -> None:
    """Create or upgrade the tables; the server does this at its start.

    Examples:
        plait reasoning migrate --db reasoning.db
    """
    database = _database(db)

    async def run() -> tuple[str | None, str]:
        from plait.reasoning.storage.database import make_engine
        from plait.reasoning.storage.database import migrate as bring_up

        engine = make_engine(database)
        try:
            return await bring_up(engine, database.schema)
        finally:
            await engine.dispose()

    before, after = asyncio.run(run())
    done = "is up to date" if before == after else f"upgraded from {before or 'nothing'} to {after}"
    click.echo(f"{database} {done} (version {after})", err=True)


@reasoning.command()
@click.option(
    "--older-than",
    "days",
    type=click.IntRange(0),
    required=True,
    metavar="DAYS",
    help="Days without a change.",
)
@_yes_option
@_db_option
def prune(days: int, yes: bool, db: str | None) -> None:
    """Delete sessions that have not changed for some days.

    Examples:
        plait reasoning prune --older-than 90
    """
    time = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="microseconds")

    async def delete_sessions(store: SqlStorage) -> int:
        if not yes:
            question = f"Delete all sessions that have not changed for {days} days?"
            click.confirm(question, abort=True, err=True)
        return await store.delete_sessions_before(time)

    click.echo(f"deleted {_in_store(db, delete_sessions)} sessions", err=True)


@reasoning.command()
@click.argument("client", type=click.Choice(_CLIENTS))
@click.option("--print", "only_print", is_flag=True, help="Print the entry; change nothing.")
@click.option("--force", is_flag=True, help="Replace an entry of the same name.")
@_profile_option
@_db_option
def install(
    client: str, only_print: bool, force: bool, profile: str | None, db: str | None
) -> None:
    """Add the server to the configuration of CLIENT.

    On a terminal, it asks for the profile unless --profile names one.

    Examples:
        plait reasoning install claude-desktop
        plait reasoning install cursor --profile compact
        plait reasoning install vscode --print
    """
    if profile is None and not only_print and sys.stdin.isatty():
        profile = click.prompt(
            "Profile: full has 29 tools, compact seven with short results",
            type=click.Choice(_PROFILES),
            default="compact",
            err=True,
        )
    _database(db)  # a server whose packages are missing would not start
    program = shutil.which("plait")
    command, *words = [program] if program else [sys.executable, "-m", "plait.cli"]
    words += ["reasoning", "serve", *(["--profile", profile] if profile else [])]
    words += ["--db", db] if db else []
    entry = {"command": command, "args": words}
    if only_print:
        print_json({"reasoning": entry})
        return
    home, here = Path.home(), Path.cwd()
    applications = Path(os.environ.get("XDG_CONFIG_HOME", home / ".config"))
    if sys.platform == "darwin":
        applications = home / "Library" / "Application Support"
    elif sys.platform == "win32":
        applications = Path(os.environ.get("APPDATA", home / "AppData" / "Roaming"))
    path = {
        "claude-desktop": applications / "Claude" / "claude_desktop_config.json",
        "claude-code": here / ".mcp.json",
        "cursor": home / ".cursor" / "mcp.json",
        "vscode": here / ".vscode" / "mcp.json",
        "plait": here / "mcp.json",
    }[client]
    with own_change(path):
        if client == "vscode":
            _add_entry(path, "servers", {"type": "stdio", **entry}, replace=force)
        else:
            _add_entry(path, "mcpServers", entry, replace=force)
    click.echo(f"wrote {path}; restart {client} to use it", err=True)


def _add_entry(path: Path, key: str, entry: Mapping[str, Any], *, replace: bool) -> None:
    """Add the server to a file, and keep a backup of the file."""
    document: object = {}
    if path.exists():
        try:
            document = json.loads(path.read_text("utf-8-sig") or "{}")
        except ValueError:
            raise ConfigError(
                f"{path} is not plain JSON, and comments would be lost: add the server manually; "
                "--print shows the entry"
            ) from None
    if not isinstance(document, dict):
        raise ConfigError(f"{path} is not a JSON object")
    servers: object = cast("dict[str, Any]", document).setdefault(key, {})
    if not isinstance(servers, dict):
        raise ConfigError(f"{path}: {key} is not an object")
    if "reasoning" in servers and not replace:
        raise ConfigError(f"{path} already has a server named reasoning: --force replaces it")
    cast("dict[str, Any]", servers)["reasoning"] = entry
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        shutil.copy2(path, path.with_name(path.name + ".bak"))
    write_atomically(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def session_tree(whole: SessionDocument) -> Group:
    """Render a session; abandoned thoughts are dim."""
    session = whole.session
    head = Text(f"{session.id}  {session.mode}, {session.status}", style="bold")
    parts: list[Text | Tree] = [head]
    if session.conclusion:
        text = _short(str(session.conclusion.get("text", "")))
        parts.append(Text(f"conclusion: {text} ■", style="bold green"))
    if whole.thoughts:
        parts.append(_thoughts(whole))
    for graph in whole.graphs:
        nodes = [node for node in whole.nodes if node.graph_id == graph.id]
        parts.append(_graph(graph.problem or graph.id, nodes, whole))
    if whole.checkpoints:
        names = ", ".join(f"{visible(one.name)} (c{one.position})" for one in whole.checkpoints)
        parts.append(Text(f"checkpoints: {names}"))
    return Group(*parts)


_STATES = {"completed": "✓", "abandoned": "✗"}


def _thoughts(whole: SessionDocument) -> Tree:
    from plait.reasoning.diagram import note_of

    branches = {branch.id: branch for branch in whole.branches}
    followed = [
        one.id
        for one in whole.thoughts
        if one.branch_id == whole.session.active_branch_id and not one.abandoned_by
    ]
    grounds: Sequence[str] = (whole.session.conclusion or {}).get("thought_ids", ())
    children: dict[str | None, list[Thought]] = {}
    parents = whole.parents
    for thought in whole.thoughts:
        children.setdefault(parents[thought.id], []).append(thought)

    def grow(tree: Tree, thoughts: Sequence[Thought]) -> None:
        # Steps without a choice stand below each other; only a choice is indented.
        while len(thoughts) == 1:
            node = tree.add(line_of(thoughts[0]))
            thoughts = children.get(thoughts[0].id, ())
            tree = node if len(thoughts) > 1 else tree
        for thought in thoughts:
            grow(tree.add(line_of(thought)), children.get(thought.id, ()))

    def line_of(thought: Thought) -> Text:
        branch = branches.get(thought.branch_id or "")
        faded = thought.abandoned_by or (branch and branch.state == "abandoned")
        mark = f" [{visible_line(branch.name)}]" if branch else ""
        if branch and branch.state != "active":
            mark += f" {_STATES[branch.state]} {branch.state}"
        if branch and thought.id in followed[-1:]:
            mark += " ◀ followed"
        if thought.id in grounds:
            mark += " ■"
        score = "" if thought.score is None else f" {thought.score:.2f}"
        head = f"t{thought.position}{score} {thought.mode}: "
        line = Text(
            f"{head}{_short(thought.content)}{mark}",
            style="dim" if faded else _colour(thought.score),
        )
        if note := note_of(thought.metadata):
            line.append(f"  {_short(note)}", style="dim")
        return line

    root = Tree(Text("thoughts"))
    grow(root, children.get(None, ()))
    return root


def _graph(title: str, nodes: Sequence[GraphNode], whole: SessionDocument) -> Tree:
    """Render a graph as a tree; a node with several parents is repeated in short form."""
    from plait.reasoning.diagram import note_of

    by_id = {node.id: node for node in nodes}
    following: dict[str, list[tuple[str, str]]] = {}
    reached: set[str] = set()
    for edge in whole.edges:
        if edge.from_node in by_id and edge.to_node in by_id:
            following.setdefault(edge.from_node, []).append((edge.edge_type, edge.to_node))
            reached.add(edge.to_node)
    shown: set[str] = set()

    def grow(tree: Tree, key: str, word: str) -> None:
        node = by_id[key]
        score = " –  " if node.score is None else f"{node.score:.2f}"
        if key in shown:
            tree.add(Text(f"{word}{score} (see above) {_short(node.content)}", style="dim"))
            return
        shown.add(key)
        mark = " ■" if node.is_terminal else " ●" if node.is_active else ""
        line = f"{word}{score} {node.node_type}: {_short(node.content)}{mark} (n{node.position})"
        label = Text(line, style="dim" if node.abandoned_by else _colour(node.score))
        if note := note_of(node.metadata):
            label.append(f"  {_short(note)}", style="dim")
        grown = tree.add(label)
        for kind, target in following.get(key, ()):
            grow(grown, target, f"{kind} → ")

    root = Tree(Text(f"graph: {_short(title)}   ● active  ■ conclusion"))
    for node in nodes:
        if node.id not in reached:
            grow(root, node.id, "")
    return root


def _colour(score: float | None) -> str:
    if score is None:
        return ""
    return "green" if score >= 0.8 else "yellow" if score >= 0.5 else "red"


def _short(text: str) -> str:
    return one_line(visible_line(text), 100)
