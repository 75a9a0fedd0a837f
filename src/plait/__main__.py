"""Runs the command line: `python -m plait`, and the program `plait`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; a server on stdio answers its client before that is imported."""
    begun = None
    if sys.argv[1:2] == ["serve"]:
        from plait.serve.first_answers import converse  # noqa: PLC0415  # only for this command

        begun = converse(sys.argv[1:])
        if begun is not None and begun.is_over:
            return
    from plait.cli import main as run_command  # noqa: PLC0415  # takes long
    from plait.cli.base import Settings  # noqa: PLC0415

    run_command(obj=Settings(begun=begun))


if __name__ == "__main__":
    main()
