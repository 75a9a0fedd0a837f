"""The requests that the mock gateway received, for tests and the inspection page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from typing import Any


@dataclass(slots=True)
class Record:
    """A request, and the status of its reply."""

    target: str
    """`discovery`, `catalogue`, `history`, or the name of a server."""
    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    at: datetime
    status: int = 0

    @property
    def json(self) -> Any:
        """The body as JSON, or `None`."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def rpc_method(self) -> str:
        """The MCP method of the request, if it has one."""
        match self.json:
            case {"method": method}:
                return str(method)
            case _:
                return ""

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON data, without tokens and keys."""
        shown = {
            name: value if name in _SHOWN_HEADERS else "***" for name, value in self.headers.items()
        }
        return {
            "at": self.at.isoformat(timespec="milliseconds"),
            "target": self.target,
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "rpc": self.rpc_method or None,
            "headers": shown,
            "body": self.json if self.target == "history" else None,
        }


_SHOWN_HEADERS = frozenset(
    {"accept", "content-type", "host", "user-agent"}
    | {"mcp-method", "mcp-name", "mcp-protocol-version"}
    | {"x-ms-agentid", "x-ms-channel-id", "x-ms-correlation-id", "x-ms-subchannel-id"}
)
"""Headers whose values are shown on the page."""

_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>plait gateway mock</title>
<meta http-equiv="refresh" content="3">
<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100% } caption { text-align: left; font-weight: 600 }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; vertical-align: top }
tr + tr { border-top: 1px solid #ddd } code, pre { font-size: 13px; overflow-wrap: anywhere }
pre { white-space: pre-wrap; margin: 0 } .bad { color: #b00020 }
@media (prefers-color-scheme: dark) { body { background: #111; color: #eee }
tr + tr { border-color: #333 } .bad { color: #ff8a80 } }
</style></head><body><h1>plait gateway mock</h1>
"""

_FIRST_BAD = 400
_SHOWN = 100


def inspection_page(endpoint: str, servers: Sequence[str], records: Sequence[Record]) -> str:
    """Render the page, newest requests first."""
    newest = list(reversed(records))
    history = [record for record in newest if record.target == "history"]
    others = [record for record in newest if record.target != "history"]
    return "".join(
        [
            _HEAD,
            f"<p>Set <code>MCP_PLATFORM_ENDPOINT={escape(endpoint)}</code> to use it.</p>",
            _table(
                "Servers", ("name", "address"), (_server_row(endpoint, name) for name in servers)
            ),
            _table("Chat history", ("time", "status", "body"), map(_history_row, history[:_SHOWN])),
            _table(
                "Requests",
                ("time", "target", "request", "status", "headers"),
                map(_request_row, others[:_SHOWN]),
            ),
            "</body></html>\n",
        ]
    )


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    empty = f'<tr><td colspan="{len(columns)}">none yet</td></tr>'
    return f"<table><caption>{escape(title)}</caption><tr>{head}</tr>{body or empty}</table><br>"


def _server_row(endpoint: str, name: str) -> tuple[str, ...]:
    return (
        f"<b>{escape(name)}</b>",
        f"<code>{escape(endpoint)}/agents/servers/{escape(name)}</code>",
    )


def _history_row(record: Record) -> tuple[str, ...]:
    body = json.dumps(record.json, indent=1, ensure_ascii=False)
    return _time(record), _status(record), f"<pre>{escape(body)}</pre>"


def _request_row(record: Record) -> tuple[str, ...]:
    shown: dict[str, str] = record.to_dict()["headers"]
    ours = {name: value for name, value in shown.items() if name.startswith(("x-ms", "auth"))}
    headers = ", ".join(f"{name}: {value}" for name, value in ours.items())
    request = f"{record.method} {record.path} {record.rpc_method}"
    return (
        _time(record),
        escape(record.target),
        f"<code>{escape(request)}</code>",
        _status(record),
        f"<code>{escape(headers)}</code>",
    )


def _time(record: Record) -> str:
    return escape(f"{record.at:%H:%M:%S}")


def _status(record: Record) -> str:
    kind = ' class="bad"' if record.status >= _FIRST_BAD or not record.status else ""
    return f"<span{kind}>{record.status or '…'}</span>"
