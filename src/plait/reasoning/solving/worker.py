"""The process that solves one problem: a request on standard input, answers on standard output.

    python -m plait.reasoning.solving.worker

Each answer is a line, better than the one before, so that the last one counts when the process is
ended. It limits its own memory and CPU time: nothing outlives a parent that was killed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Final

try:
    import resource
except ImportError:  # Windows; the parent still limits the time
    resource = None

MAX_MEMORY_BYTES: Final = 1_500_000_000
"""Z3 and Python take some 150 MB before the first constraint."""


def main() -> None:
    """Answer the request."""
    request: dict[str, Any] = json.load(sys.stdin)
    seconds = float(request["seconds"])
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
        cpu = int(seconds) + 5
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    deadline_at = time.monotonic() + seconds
    # After the limits: memory that the solver takes for itself counts too.
    from plait.reasoning.solving.engine import Deadline, answers, check  # noqa: PLC0415
    from plait.reasoning.solving.problem import FORMS  # noqa: PLC0415

    problem = FORMS[request["problem"]["form"]].model_validate(request["problem"])
    deadline = Deadline(deadline_at)
    if (proposed := request.get("proposed")) is not None:
        write({"answer": check(problem, proposed, deadline).data()})
    else:
        for answer in answers(problem, deadline):
            write({"answer": answer.data()})
    write({"end": True})
    # Z3 may take seconds to free what it holds.
    os._exit(0)


def write(message: dict[str, Any]) -> None:
    """Write a message as a line, at once."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
