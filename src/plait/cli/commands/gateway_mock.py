"""`plait gateway mock`: a mock gateway on this machine, for work without an account."""

from __future__ import annotations

import json
from pathlib import Path

import click

from plait.cli.click_classes import ExampleCommand
from plait.errors import ConfigError


@click.command(cls=ExampleCommand)
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
        for path in write_samples(folder):
            click.echo(f"wrote {path}", err=True)
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {mocks}: --init creates it")
    from plait.gateway.mock.run import MockGateway

    gateway = MockGateway(folder, port=port, fail=faults, require_token=require_token)
    gateway.serve(_announce)


def _announce(url: str) -> None:
    click.echo(f"listening on {url}", err=True)
    click.echo(f"MCP_PLATFORM_ENDPOINT={url}", err=True)


def write_samples(folder: Path) -> list[Path]:
    """Write sample files; existing files are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name, tools in _SAMPLES.items():
        path = folder / f"{name}.json"
        if not path.exists():
            path.write_text(json.dumps(tools, indent=2) + "\n", "utf-8")
            written.append(path)
    return written


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
