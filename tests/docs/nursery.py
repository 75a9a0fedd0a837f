"""A process that has imported what is slow, and forks to run one program after another.

Reads a line of JSON for each program, and answers with its exit code.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
from collections.abc import Mapping
from pathlib import Path

SLOW = (
    "langchain.agents",
    "langgraph.checkpoint.memory",
    "mcp.server",
    "plait.adapters.langchain.middleware",
    "plait.adapters.langchain.scripted_model",
)


def become(program: Path, folder: str, environment: Mapping[str, str], output: str) -> None:
    """Run a program in this process as Python would run it by itself."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for stream, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(Path(output, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, stream)
        os.close(file)
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    sys.argv = [str(program)]
    sys.path[0] = str(program.parent)
    runpy.run_path(str(program), run_name="__main__")


def main() -> None:
    for name in SLOW:
        importlib.import_module(name)
    for line in sys.stdin:
        wanted = json.loads(line)
        if (child := os.fork()) == 0:
            become(
                Path(wanted["program"]), wanted["folder"], wanted["environment"], wanted["output"]
            )
            return
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
