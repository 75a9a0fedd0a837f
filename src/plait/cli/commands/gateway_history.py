"""`plait gateway send-history` and `plait gateway outbox`: send chat history manually."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import click
from rich.table import Table
from rich.text import Text

from plait.cli import terminal
from plait.cli.click_classes import ExampleCommand
from plait.cli.exits import Exit
from plait.cli.options import json_option
from plait.errors import ConfigError

if TYPE_CHECKING:
    from plait.gateway.history import ChatHistory
    from plait.gateway.outbox import OutboxEntry


endpoint_option = click.option(
    "--endpoint", metavar="URL", help="The gateway; by default $MCP_PLATFORM_ENDPOINT."
)


@click.command("send-history", cls=ExampleCommand)
@click.argument("file", type=click.File("r", encoding="utf-8"))
@endpoint_option
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
    from plait.gateway.headers import GatewayRequestOptions, history_headers
    from plait.gateway.outbox import Outbox

    history = history_from(file.read(), file.name)
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


_FLUSH_SECONDS = 30.0
"""How long to wait until the outbox is empty."""


def history_from(text: str, name: str) -> ChatHistory:
    """Read the history of a turn."""
    from plait.gateway.history import ChatHistory, ChatHistoryMessage

    try:
        document: Any = json.loads(text)
        listed = cast("Sequence[Mapping[str, Any]]", document.get("chatHistory") or [])
        return ChatHistory(
            conversation_id=_text(document, "conversationId"),
            message_id=_text(document, "messageId"),
            user_message=_text(document, "userMessage"),
            messages=tuple(
                ChatHistoryMessage(
                    id=str(one.get("id") or uuid.uuid4()),
                    role=_text(one, "role"),
                    content=_text(one, "content"),
                    timestamp=datetime.fromisoformat(one["timestamp"])
                    if one.get("timestamp")
                    else datetime.now(UTC),
                )
                for one in listed
            ),
        )
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigError(f"{name} is not a chat history: {error}") from error


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{key} is missing, or not a string")
    return value


@click.command(cls=ExampleCommand)
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
        terminal.print_json([entry_object(one) for one in entries])
    elif entries:
        terminal.print_rich(entries_table(entries, time.time()))
    else:
        click.echo("the outbox is empty", err=True)
    if not done or ((deliver or retry) and entries):
        ctx.exit(Exit.UNREACHABLE)


def entry_object(entry: OutboxEntry) -> dict[str, object]:
    """Return a queued entry as JSON, without its content."""
    return {
        "id": entry.id,
        "conversation": entry.conversation,
        "url": entry.url,
        "bytes": len(entry.body),
        "stored_at": entry.stored_at,
        "attempts": entry.attempts,
        "refused": entry.refused,
        "last_error": entry.last_error,
    }


def entries_table(entries: Sequence[OutboxEntry], now: float) -> Table:
    """Make a table of the queued entries."""
    table = terminal.plain_table(
        "id", "conversation", "size", "age", "attempts", "state", "last error"
    )
    for one in entries:
        table.add_row(
            str(one.id),
            Text(terminal.visible(one.conversation)),
            terminal.size_label(len(one.body)),
            terminal.seconds_label(max(0.0, now - one.stored_at)),
            str(one.attempts),
            Text("refused", "red") if one.refused else "queued",
            Text(terminal.visible(one.last_error or "–")),
        )
    return table
