"""`plait trust`: approve configurations that are found in a folder, and list approvals."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from plait.cli.base import ExampleGroup, json_option
from plait.cli.found_config import config_places
from plait.cli.terminal import cell, plain_table, print_aside, print_json, print_rich, visible
from plait.cli.trust import Approval, Approvals, preview_of, print_preview
from plait.client.config.document import user_path
from plait.errors import ConfigError


@click.group(cls=ExampleGroup)
def trust() -> None:
    """Approve the mcp.json of a folder, and list approvals.

    A configuration that is found in the working folder is used once you have
    approved it; so is each change of it, of its env files and of its policy.

    Examples:
        plait trust approve            show what it does, and approve it
        plait trust list
        plait trust revoke
    """


@trust.command()
@click.argument("path", required=False)
def approve(path: str | None) -> None:
    """Show what the configuration in PATH does, and approve it.

    PATH is a file or a folder, by default the working folder.

    Examples:
        plait trust approve
        plait trust approve ~/src/shop
    """
    file = _configuration_at(path)
    if not file.is_file():
        raise ConfigError(f"there is no configuration at {file}")
    preview = preview_of(file)
    print_preview(preview, f"{preview.path}:")
    Approvals().add(preview.path, preview.digest)
    click.echo(f"approved {visible(str(preview.path))}")


@trust.command()
@click.argument("path", required=False)
@click.option("--all", "everything", is_flag=True, help="Revoke every approval.")
def revoke(path: str | None, everything: bool) -> None:
    """Forget the approval of the configuration in PATH.

    PATH is a file or a folder, by default the working folder.

    Examples:
        plait trust revoke
        plait trust revoke --all
    """
    approvals = Approvals()
    named = [Path(one.path) for one in approvals.all()] if everything else [_configuration_at(path)]
    revoked = [one for one in named if approvals.revoke(one)]
    for one in revoked:
        click.echo(f"revoked {visible(str(one))}")
    if not revoked:
        print_aside("note", "nothing was approved", colour="cyan")


@trust.command("list")
@json_option
def list_approvals(as_json: bool) -> None:
    """List the approved configurations.

    Examples:
        plait trust list
        plait trust list --json
    """
    found = Approvals().all()
    if as_json:
        print_json([{**_facts(one), "digests": one.digests} for one in found])
        return
    if not found:
        print_aside("note", "nothing is approved", colour="cyan")
        return
    table = plain_table("file", "approved", "state", dispensable=["approved"])
    for one in found:
        facts = _facts(one)
        table.add_row(cell(one.path), cell(facts["approved_at"][:16]), cell(facts["state"]))
    print_rich(table)


def _facts(approval: Approval) -> dict[str, str]:
    path = Path(approval.path)
    try:
        state = "approved" if preview_of(path).digest in approval.digests else "changed"
    except ConfigError:
        state = "unreadable" if path.is_file() else "gone"
    at = datetime.fromtimestamp(approval.approved_at).astimezone().isoformat(" ", "seconds")
    return {"path": approval.path, "state": state, "approved_at": at}


def _configuration_at(path: str | None) -> Path:
    """Return the configuration that a file or folder names."""
    place = user_path(path) if path else Path.cwd()
    if not place.is_dir():
        return place
    *places, _ = config_places(cwd=place)
    return next((one for one in places if one.is_file()), places[0])
