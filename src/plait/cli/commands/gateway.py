"""`plait gateway`: the tool servers of an agent, a mock gateway, and chat history sent manually."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click
from rich.text import Text

from plait._support.sizes import size_label
from plait._support.suggestions import suggest_names
from plait.cli import terminal
from plait.cli.base import Command, ExampleGroup, json_option, repeatable
from plait.cli.exits import Exit
from plait.cli.trust import own_change, require_trust
from plait.client.config.urls import public_url
from plait.errors import ConfigError, UnknownServerError
from plait.gateway.history import ChatHistory, ChatHistoryMessage
from plait.gateway.manifest import add_entries, find_manifest, remove_entries
from plait.html.pieces import count_label, seconds_label

if TYPE_CHECKING:
    from plait.gateway.configuration import McpToolServerConfigurationService, Verification
    from plait.gateway.credentials import TokenSource
    from plait.gateway.manifest import GatewayServer, ServerList


_FLUSH_SECONDS = 30.0
"""How long to wait until the outbox is empty."""

_endpoint_option = click.option(
    "--endpoint", metavar="URL", help="The gateway; by default $MCP_PLATFORM_ENDPOINT."
)


@click.group(cls=ExampleGroup)
def gateway() -> None:
    """Manage the tool servers of an agent, and its chat history.

    They are listed in ToolingManifest.json during development, and by a gateway in production.

    Examples:
        plait gateway mock --init             a mock gateway on this machine
        plait gateway add mcp_MailTools       add a server to ToolingManifest.json
        plait gateway servers                 list the servers
        plait gateway verify                  compare declared and actual tools
    """


@gateway.command()
@click.option(
    "--mocks",
    metavar="DIR",
    default="mocks",
    show_default=True,
    help="Folder with a file per server.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=5309, show_default=True)
@click.option("--init", is_flag=True, help="Write sample files, if there are none.")
@click.option("--require-token", is_flag=True, help="Refuse requests without a valid token.")
@click.option(
    "--fail",
    "faults",
    metavar="FAULT",
    multiple=True,
    help="TARGET=KIND[:SECONDS][xTIMES]. Targets: discovery, history, a server. "
    "Kinds: an HTTP status, slow, garbage, malformed, duplicate.",
)
def mock(mocks: str, port: int, init: bool, require_token: bool, faults: tuple[str, ...]) -> None:
    """Serve a mock gateway on this machine: discovery, mock servers and chat history.

    Each file in the folder holds the tools of the server with its name. The index page of the URL
    shows the received requests.

    Examples:
        plait gateway mock --init                     write two sample servers
        plait gateway mock --port 0                   any free port
        plait gateway mock --fail discovery=429:2x1   refuse once, for two seconds
        plait gateway mock --fail mcp_MailTools=500 --fail history=slow:5
    """
    folder = Path(mocks)
    if init:
        folder.mkdir(parents=True, exist_ok=True)
        for name, tools in _SAMPLES.items():
            path = folder / f"{name}.json"
            if not path.exists():
                path.write_text(json.dumps(tools, indent=2) + "\n", "utf-8")
                click.echo(f"wrote {path}", err=True)
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {mocks}: --init creates it")
    from plait.gateway.mock import MockGateway

    def announce(url: str) -> None:
        click.echo(f"listening on {url}\nMCP_PLATFORM_ENDPOINT={url}", err=True)

    MockGateway(folder, port=port, fail=faults, require_token=require_token).serve(announce)


_SAMPLES: dict[str, list[dict[str, object]]] = {
    "mcp_MailTools": [
        {
            "name": "sendMail",
            "description": "Send a mail.",
            "inputSchema": {
                "type": "object",
                "properties": {"to": {"type": "string"}, "subject": {"type": "string"}},
                "required": ["to", "subject"],
            },
            "responseTemplate": "Sent “{{subject}}” to {{to}}.",
            "delayMs": 0,
            "errorRate": 0.0,
        }
    ],
    "mcp_CalendarTools": [
        {
            "name": "listEvents",
            "description": "List the events of a day.",
            "inputSchema": {"type": "object", "properties": {"day": {"type": "string"}}},
            "responseTemplate": "On {{day}}: 10:00 planning, 15:00 review.",
        }
    ],
}


@gateway.command("send-history")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@_endpoint_option
@click.option(
    "--outbox", metavar="PATH", help="Queue the history in this file, and send it from there."
)
@click.option("--redact", is_flag=True, help="Redact likely secrets.")
@click.pass_context
def send_history(
    ctx: click.Context, file: IO[str], endpoint: str | None, outbox: str | None, redact: bool
) -> None:
    """Send the chat history of one turn to the gateway.

    FILE is JSON: {"conversationId", "messageId", "userMessage", "chatHistory": [{"role",
    "content"}, …]}. Messages without id or timestamp get them. Exits with code 3 if it is not
    delivered.

    Examples:
        plait gateway send-history turn.json
        plait gateway send-history turn.json --outbox outbox.db
        cat turn.json | plait gateway send-history -
    """
    from plait.gateway.configuration import McpToolServerConfigurationService
    from plait.gateway.credentials import GatewayRequestOptions, history_headers
    from plait.gateway.outbox import Outbox

    history = _history_from(file.read(), file.name)
    box = None if outbox is None else Outbox(outbox)
    service = McpToolServerConfigurationService(endpoint=endpoint, outbox=box, redact=redact)
    result = asyncio.run(service.deliver(history, history_headers(GatewayRequestOptions())))
    if not result.succeeded:
        raise result.errors[0].exception
    if box is not None:
        with box:
            if not box.flush(_FLUSH_SECONDS):
                click.echo(f"queued in {outbox}; not delivered yet", err=True)
                ctx.exit(Exit.UNREACHABLE)
    click.echo(f"sent {len(history.messages)} messages", err=True)


def _history_from(text: str, name: str) -> ChatHistory:
    try:
        document: Any = json.loads(text)
        listed: Sequence[Mapping[str, Any]] = document.get("chatHistory") or []
        messages: list[ChatHistoryMessage] = []
        for fields in listed:
            sent = fields.get("timestamp")
            message = ChatHistoryMessage(
                id=str(fields.get("id") or uuid.uuid4()),
                role=_text(fields, "role"),
                content=_text(fields, "content"),
                timestamp=datetime.fromisoformat(sent) if sent else datetime.now(UTC),
            )
            messages.append(message)
        return ChatHistory(
            conversation_id=_text(document, "conversationId"),
            message_id=_text(document, "messageId"),
            user_message=_text(document, "userMessage"),
            messages=tuple(messages),
        )
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigError(f"{name} is not a chat history: {error}") from error


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{key} is missing, or not a string")
    return value


@gateway.command()
@click.argument("path", type=click.Path(exists=True, dir_okay=False))
@click.option("--deliver", is_flag=True, help="Send queued entries, and wait until they are sent.")
@click.option("--retry", is_flag=True, help="The same, including refused entries.")
@click.option("--drop-refused", is_flag=True, help="Delete entries that the gateway refused.")
@json_option
@click.pass_context
def outbox(
    ctx: click.Context, path: str, deliver: bool, retry: bool, drop_refused: bool, as_json: bool
) -> None:
    """Show the chat history queued in the file PATH, or send it.

    Exits with code 3 if entries are left after --deliver or --retry.

    Examples:
        plait gateway outbox outbox.db                  list queued entries
        plait gateway outbox outbox.db --deliver        send them now
        plait gateway outbox outbox.db --retry          send refused entries, too
        plait gateway outbox outbox.db --drop-refused   delete refused entries
    """
    from plait.gateway.outbox import Outbox

    with Outbox(Path(path)) as box:
        if drop_refused:
            box.store.remove(*(one.id for one in box.store.entries() if one.refused))
        if retry:
            box.retry()
        done = box.flush(_FLUSH_SECONDS) if deliver or retry else True
        entries = box.store.entries()
    if as_json:
        # Without the content of the messages.
        terminal.print_json(
            [
                {
                    "id": one.id,
                    "conversation": one.conversation,
                    "url": one.url,
                    "bytes": len(one.body),
                    "stored_at": one.stored_at,
                    "attempts": one.attempts,
                    "refused": one.refused,
                    "last_error": one.last_error,
                }
                for one in entries
            ]
        )
    elif entries:
        columns = ("id", "conversation", "size", "age", "attempts", "state", "last error")
        table = terminal.plain_table(
            *columns, dispensable=("conversation", "size", "attempts", "age")
        )
        now = time.time()
        for one in entries:
            size = size_label(len(one.body))
            age = seconds_label(max(0.0, now - one.stored_at))
            state = Text("refused", "red") if one.refused else "queued"
            conversation, error = terminal.cell(one.conversation), terminal.cell(one.last_error)
            table.add_row(str(one.id), conversation, size, age, str(one.attempts), state, error)
        terminal.print_rich(table)
    else:
        click.echo("the outbox is empty", err=True)
    if not done or ((deliver or retry) and entries):
        ctx.exit(Exit.UNREACHABLE)


def _source_options(command: Command) -> Command:
    manifest_help = "The manifest; by default ToolingManifest.json here or above."
    agent_help = "List the servers of this agent from the gateway, with $BEARER_TOKEN."
    command = click.option("--manifest", metavar="PATH", help=manifest_help)(command)
    return click.option("--agent", metavar="ID", help=agent_help)(_endpoint_option(command))


@gateway.command()
@click.option("--available", is_flag=True, help="List all servers of the gateway.")
@_source_options
@json_option
@click.pass_context
def servers(ctx: click.Context, available: bool, as_json: bool, **source: str | None) -> None:
    """List the tool servers of the manifest, or of an agent.

    Exits with code 4 if an entry cannot be used.

    Examples:
        plait gateway servers
        plait gateway servers --json
        plait gateway servers --agent 11111111-2222-3333-4444-555555555555
        plait gateway servers --available     all servers of the gateway
    """
    found = asyncio.run(_list_servers(_service(**source), source["agent"], available=available))
    if as_json:
        listed = [one.to_dict() for one in found]
        skipped = [{"name": one.name, "reason": one.reason} for one in found.skipped]
        terminal.print_json({"servers": listed, "skipped": skipped})
    elif found.servers:
        table = terminal.plain_table(
            *("server", "address", "scope", "audience", "tools"),
            dispensable=("audience", "scope", "tools"),
        )
        for one in found.servers:
            name, address = terminal.cell(one.mcp_server_name, "bold"), public_url(one.url)
            cells = map(terminal.cell, (address, one.scope, one.audience))
            table.add_row(name, *cells, "–" if one.tools is None else str(len(one.tools)))
        terminal.print_rich(table)
    else:
        click.echo("no tool servers", err=True)
    for one in found.skipped:
        terminal.print_aside("skipped", str(one), colour="red")
    if found.skipped:
        ctx.exit(Exit.CONFIG)


@gateway.command()
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@click.option("--url", help="The URL of the server; by default its URL at the gateway.")
@click.option("--scope", help="The scope of its token.")
@click.option("--audience", help="The audience of its token.")
@click.option("--publisher", help="The publisher of the server.")
@repeatable("--tool", "tools", "NAME", "A declared tool")
@click.option("--manifest", metavar="PATH", default="ToolingManifest.json", show_default=True)
def add(names: tuple[str, ...], manifest: str, **options: Any) -> None:
    """Add servers to the manifest, which is created if needed.

    An existing entry keeps the fields that are not set by options.

    Examples:
        plait gateway add mcp_MailTools mcp_CalendarTools
        plait gateway add mcp_MailTools --scope McpServers.Mail.All
        plait gateway add tracker --url https://tracker.example/mcp --tool open
    """
    if options["url"] and len(names) > 1:
        raise click.UsageError("--url needs exactly one NAME")
    settings = ("url", "scope", "audience", "publisher", "tools")
    fields = {name: options[name] for name in settings if options[name]}
    entries = [{"mcpServerName": name, "mcpServerUniqueName": name, **fields} for name in names]
    with own_change(Path(manifest), _digest_of):
        added = add_entries(Path(manifest), entries)
    for name in names:
        click.echo(f"{'added' if name in added else 'changed'} {name} in {manifest}", err=True)


@gateway.command()
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@click.option("--manifest", metavar="PATH", default="ToolingManifest.json", show_default=True)
@click.pass_context
def remove(ctx: click.Context, names: tuple[str, ...], manifest: str) -> None:
    """Remove servers from the manifest.

    Exits with code 4 if one of them is not in it.

    Examples:
        plait gateway remove mcp_MailTools
    """
    with own_change(Path(manifest), _digest_of):
        removed = remove_entries(Path(manifest), names)
    for name in names:
        message = f"removed {name} from {manifest}" if name in removed else f"no server {name}"
        click.echo(message, err=True)
    if len(removed) < len(names):
        ctx.exit(Exit.CONFIG)


@gateway.command()
@click.argument("names", metavar="[NAME]…", nargs=-1)
@click.option("--write", is_flag=True, help="Write the actual tools to the manifest.")
@_source_options
@json_option
@click.pass_context
def verify(
    ctx: click.Context, names: tuple[str, ...], write: bool, as_json: bool, **source: str | None
) -> None:
    """Compare the declared tools of servers with the actual ones.

    Tokens of the environment are sent to the servers: a manifest that was found here, and not
    named with --manifest, is shown and approved first. Exits with code 3 if a server cannot be
    reached, and with 6 if its tools differ.

    Examples:
        plait gateway verify
        plait gateway verify mcp_MailTools --json
        plait gateway verify --write          declare the actual tools
    """
    from plait.gateway.configuration import verify_servers

    async def compare() -> list[Verification]:
        service = _service(**source)
        listed = await _list_servers(service, source["agent"])
        known = {one.mcp_server_name: one for one in listed}
        for name in names:
            if name not in known:
                guess = suggest_names(name, known)
                raise UnknownServerError(f"there is no server {name!r}: {guess}", server=name)
        chosen = [known[name] for name in names] or list(known.values())
        if source["manifest"] is None and source["agent"] is None:
            _require_trust(ctx, chosen)
        tokens = await _tokens(service).for_servers(chosen, "")
        return await verify_servers(service, chosen, tokens)

    verdicts = asyncio.run(compare())
    if as_json:
        terminal.print_json([one.to_dict() for one in verdicts])
    else:
        table = terminal.plain_table("", "server", "state", "tools", "missing", "undeclared")
        for one in verdicts:
            mark = terminal.tick(one.state in {"matches", "nothing declared"})
            tools = "–" if one.error is not None else str(len(one.live))
            differences = (terminal.cell(", ".join(each)) for each in (one.missing, one.undeclared))
            table.add_row(mark, terminal.cell(one.server, "bold"), one.state, tools, *differences)
        terminal.print_rich(table)
        for one in verdicts:
            if one.error is not None:
                terminal.print_text(terminal.wrapped(f"{one.server}: {one.error}", sys.stdout))
    if write:
        path = Path(source["manifest"]) if source["manifest"] else find_manifest()
        if path is None:
            raise click.UsageError("--write needs a manifest to write to")
        alive = [one for one in verdicts if one.error is None]
        entries = [{"mcpServerName": one.server, "tools": list(one.live)} for one in alive]
        with own_change(path, _digest_of):
            add_entries(path, entries)
        servers = count_label(len(alive), "server")
        click.echo(f"wrote the tools of {servers} to {path}", err=True)
    elif any(one.state == "differs" for one in verdicts):
        ctx.exit(Exit.PROTOCOL)
    if any(one.state == "failed" for one in verdicts):
        ctx.exit(Exit.UNREACHABLE)


def _service(
    manifest: str | None, endpoint: str | None, agent: str | None
) -> McpToolServerConfigurationService:
    """Use the manifest, unless an agent is named."""
    from plait.gateway.configuration import McpToolServerConfigurationService

    return McpToolServerConfigurationService(
        manifest=manifest,
        endpoint=endpoint,
        use_manifest=agent is None,
        # In development, tokens come from the environment.
        environ={**os.environ, "PYTHON_ENVIRONMENT": "Development"},
    )


async def _list_servers(
    service: McpToolServerConfigurationService, agent: str | None, *, available: bool = False
) -> ServerList:
    """List the servers of the manifest or of an agent, or those available to all."""
    token = await _tokens(service).shared()
    if available:
        return await service.list_available_servers(token)
    return await service.list_tool_servers(agent or "", token)


def _tokens(service: McpToolServerConfigurationService) -> TokenSource:
    from plait.gateway.credentials import TokenSource

    return TokenSource(service.settings(), environ=service.environ)


def _require_trust(ctx: click.Context, servers: Sequence[GatewayServer]) -> None:
    """Ask before tokens are sent to the servers of a manifest that was found in the folder."""
    from plait.cli.trust import Preview

    path = find_manifest()
    if path is None:
        return
    token = "gets", "$BEARER_TOKEN, if it is set"
    facts = [(one.mcp_server_name, (("contacts", public_url(one.url)), token)) for one in servers]
    require_trust(ctx, Preview(path, _digest_of(path), tuple(facts)))


def _digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
