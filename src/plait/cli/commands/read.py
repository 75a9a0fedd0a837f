"""`plait read`: read one resource and print it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait.cli import session
from plait.cli.click_classes import ExampleCommand
from plait.cli.options import json_option
from plait.cli.terminal import is_terminal, print_aside, print_json, print_text, size_label

if TYPE_CHECKING:
    from mcp import types

    from plait.cli.content import Part
    from plait.cli.session import Opened


@click.command(
    cls=ExampleCommand,
    examples="""
    plait read files file:///etc/hosts
    plait read shop catalogue://logo --save logo.png
    plait read shop catalogue://logo > logo.png
    """,
)
@click.argument("server")
@click.argument("uri")
@click.option(
    "--save",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the contents to this file.",
)
@json_option
@click.pass_context
def read(ctx: click.Context, server: str, uri: str, file: Path | None, as_json: bool) -> None:
    """Read one resource and print it.

    Text is printed unchanged. Binary data is written to a file or a pipe,
    never to a terminal.
    """

    async def read_resource(opened: Opened) -> types.ReadResourceResult:
        async with opened.connecting:
            return await opened.box.read_resource(server, uri)

    with session.json_errors(ctx, as_json, server=server, uri=uri, contents=[]):
        result = session.run(
            ctx, read_resource, servers=[server], heal=True, show_progress=not as_json
        )
    if file is not None:
        _save(result, file)
    if as_json:
        wire = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        print_json({"server": server, "uri": uri, "contents": wire["contents"]})
    elif file is None:
        _print(result)


def _parts(result: types.ReadResourceResult) -> list[Part]:
    from plait.cli.content import part_from_contents

    return [part_from_contents(contents) for contents in result.contents]


def _save(result: types.ReadResourceResult, file: Path) -> None:
    data = b"".join(_bytes_of(part) for part in _parts(result))
    file.write_bytes(data)
    print_aside("saved", f"{file} ({size_label(len(data))})", colour="green")


def _bytes_of(part: Part) -> bytes:
    return part.data if part.data is not None else (part.text or "").encode()


def _print(result: types.ReadResourceResult) -> None:
    for part in _parts(result):
        if part.data is not None and not is_terminal(sys.stdout):
            sys.stdout.buffer.write(part.data)
        else:
            print_text(str(part).replace("--save DIR", "--save FILE"))
