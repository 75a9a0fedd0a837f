"""Commands whose help ends with examples, printed line by line as they were written."""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

import click


class ExampleCommand(click.Command):
    """A command with examples, one a line, below its options."""

    def __init__(self, *args: Any, examples: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(cleandoc(examples).splitlines())

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples after everything else."""
        super().format_epilog(ctx, formatter)
        write_examples(self.examples, formatter)


class ExampleGroup(ExampleCommand, click.Group):
    """A command with commands of its own, and examples below them."""


def write_examples(examples: tuple[str, ...], formatter: click.HelpFormatter) -> None:
    """Write lines as they are: wrapped commands cannot be pasted."""
    if not examples:
        return
    with formatter.section("Examples"):
        for line in examples:
            formatter.write(f"{' ' * formatter.current_indent}{line}\n")
