"""Let `python -m plait.cli` be the command line."""

from plait.cli import main

main(prog_name="plait")
