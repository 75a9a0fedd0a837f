"""`plait gateway send-history` and `plait gateway outbox`: chat history by hand."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import click

from plait.cli.click_classes import ExampleCommand
from plait.cli.exits import Exit
from plait.cli.options import common_options, json_option

if TYPE_CHECKING:
    from rich.table import Table

    from plait.gateway.history import ChatHistory
    from plait.gateway.outbox_store import Letter


@click.command(
    "send-history",
    cls=ExampleCommand,
    examples="""
    plait gateway send-history turn.json
    plait gateway send-history turn.json --outbox outbox.db
    cat turn.json | plait gateway send-history -
    """,
)
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("--endpoint", metavar="URL", help="The gateway; else $MCP_PLATFORM_ENDPOINT.")
@click.option("--outbox", metavar="PATH", help="Store it there, and send it from there.")
@click.option("--redact", is_flag=True, help="Take out what looks like a secret.")
@common_options
@click.pass_context
def send_history(
    ctx: click.Context, file: IO[str], endpoint: str | None, outbox: str | None, redact: bool
) -> None:
    """Send the chat history of one turn to the gateway.

    FILE is JSON: {"conversationId", "messageId", "userMessage", "chatHistory": [{"role",
    "content"}, …]}. Messages without id or timestamp get them. Ends with code 3 when it does not
    arrive.
    """
    import asyncio

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
                click.echo(f"stored in {outbox}; it is not delivered yet", err=True)
                ctx.exit(Exit.UNREACHABLE)
    click.echo(f"sent {len(history.messages)} messages", err=True)


_FLUSH_SECONDS = 30.0
"""How long to wait until the outbox is empty."""


def history_from(text: str, name: str) -> ChatHistory:
    """Read the history of a turn.

    Raises:
        ConfigError: It is not written right.
    """
    import uuid
    from datetime import UTC, datetime

    from plait.errors import ConfigError
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
        raise ConfigError(f"{name} is not the history of a turn: {error}") from error


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{key} is missing, or not a text")
    return value


@click.command(
    cls=ExampleCommand,
    examples="""
    plait gateway outbox outbox.db                  what waits there, and why
    plait gateway outbox outbox.db --deliver        send it now
    plait gateway outbox outbox.db --retry          send also what was refused
    plait gateway outbox outbox.db --drop-refused   give up what was refused
    """,
)
@click.argument("path", type=click.Path(exists=True, dir_okay=False))
@click.option("--deliver", is_flag=True, help="Send what waits, and wait until it is sent.")
@click.option("--retry", is_flag=True, help="The same, for what was refused too.")
@click.option("--drop-refused", is_flag=True, help="Take out what the gateway will not have.")
@json_option
@common_options
@click.pass_context
def outbox(
    ctx: click.Context, path: str, deliver: bool, retry: bool, drop_refused: bool, as_json: bool
) -> None:
    """Show the chat history that waits in the file PATH, and send it.

    Ends with code 3 when something is left after --deliver or --retry.
    """
    from plait.cli.terminal import print_json, print_rich
    from plait.gateway.outbox import Outbox

    with Outbox(Path(path)) as box:
        if drop_refused:
            box.store.remove(*(one.id for one in box.store.letters() if one.refused))
        if retry:
            box.retry()
        done = box.flush(_FLUSH_SECONDS) if deliver or retry else True
        letters = box.store.letters()
    if as_json:
        print_json([letter_object(one) for one in letters])
    elif letters:
        print_rich(letters_table(letters, time.time()))
    else:
        click.echo("nothing waits", err=True)
    if not done or ((deliver or retry) and letters):
        ctx.exit(Exit.UNREACHABLE)


def letter_object(letter: Letter) -> dict[str, object]:
    """Describe a letter as plain data, without what it says."""
    return {
        "id": letter.id,
        "conversation": letter.conversation,
        "url": letter.url,
        "bytes": len(letter.body),
        "stored_at": letter.stored_at,
        "attempts": letter.attempts,
        "refused": letter.refused,
        "last_error": letter.last_error,
    }


def letters_table(letters: Sequence[Letter], now: float) -> Table:
    """Draw the letters, one line each."""
    from rich.table import Table
    from rich.text import Text

    from plait.cli.terminal import seconds_label, size_label, visible

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in ("id", "conversation", "size", "age", "attempts", "state", "last error"):
        table.add_column(column, overflow="fold")
    for one in letters:
        table.add_row(
            str(one.id),
            Text(visible(one.conversation)),
            size_label(len(one.body)),
            seconds_label(max(0.0, now - one.stored_at)),
            str(one.attempts),
            Text("refused", "red") if one.refused else "waits",
            Text(visible(one.last_error or "–")),
        )
    return table
