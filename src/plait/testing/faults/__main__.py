"""The command line of the fault server."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from plait.testing.faults.fault_options import Run, parse


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the command line, and serve until stopped or until the configured fault."""
    settings = parse(argv)
    run = Run(settings)
    run.log_start()
    for line in settings.stderr_line:
        print(line, file=sys.stderr, flush=True)  # noqa: T201
    time.sleep(settings.slow_start)
    if settings.exit_after == 0:
        run.exit()
    # Imported late: a server that exits at the start should not take a second to do so.
    from plait.testing.faults.fault_server import serve  # noqa: PLC0415

    serve(run)


if __name__ == "__main__":
    main()
