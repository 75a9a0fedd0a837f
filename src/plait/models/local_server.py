"""Runs a local model in this process, with the HTTP API of OpenAI on a port of this machine.

    python -m plait.models.local_server MODEL.gguf [REQUESTS_AT_ONCE]

It prints its address, and ends when its standard input does, so that it never outlives the process
that started it.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

CONTEXT_TOKENS = 8192


def threads() -> int:
    """Return how many threads a model uses: one core is left to everything else."""
    return max(1, (os.cpu_count() or 2) - 1)


def main(path: str, at_once: int = 1) -> None:
    """Serve the model of a file until standard input ends; `at_once` requests share the context."""
    xllamacpp: Any = import_module("xllamacpp")  # an extra, and without types
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = CONTEXT_TOKENS
    params.n_parallel = at_once
    params.kv_unified = True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads()
    params.warmup = False
    params.ui = False
    # Else any web page in a browser of this machine could use the model and read its answers.
    params.cors_origins = "localhost"
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
