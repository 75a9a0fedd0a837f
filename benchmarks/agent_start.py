"""Measures the start of `plait run`: the first request to the model, beside an import.

Each round imports the library of the engine in one process, and then runs `plait run` without
servers until a stand-in gets the first request; the ratio of the two is what a user waits for more.
Start it with `python -m benchmarks.agent_start [--rounds N]`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from typing_extensions import override

TARGET = 1.5
"""How many times the import the first request may take."""


class FirstRequest:
    """An API that notes when the first request arrives, and refuses it."""

    def __init__(self) -> None:
        noted = threading.Event()
        self.noted = noted

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                noted.set()
                self.send_response(400)
                self.end_headers()

            @override
            def log_message(self, format: str, *args: object) -> None:
                del format, args

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()


def engines(url: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return what each engine imports, and the options of its run."""
    claude = ("--model", "claude-haiku-5-5", "--engine")
    return {
        "claude_tool": ("import anthropic", (*claude, "claude_tool")),
        "langchain": ("import langchain.agents, langchain_anthropic", (*claude, "langchain")),
        "openai_endpoint": (
            "import langchain.agents, langchain_openai",
            ("--model", f"{url}/v1#test"),
        ),
        "claude_agent_sdk": ("import claude_agent_sdk", (*claude, "claude_agent_sdk")),
    }


def round_of(statement: str, options: tuple[str, ...], api: FirstRequest, folder: str) -> float:
    """Return the time to the first request, in imports of the engine."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": folder,
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": api.url,
    }
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], env=environment, cwd=folder, check=True)
    imported = time.perf_counter() - began
    api.noted.clear()
    began = time.perf_counter()
    run = subprocess.Popen(
        [sys.executable, "-m", "plait.cli", "run", "Hello", "--quiet", *options],
        env=environment,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    if not api.noted.wait(120):
        raise TimeoutError(f"no request: {' '.join(options)}")
    seconds = time.perf_counter() - began
    run.kill()
    run.wait()
    return seconds / imported


def main() -> None:
    """Print the median ratio of each engine; exit with 1 if one is over the target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds: int = parser.parse_args().rounds
    api = FirstRequest()
    slow = False
    with tempfile.TemporaryDirectory() as folder:
        for name, (statement, options) in engines(api.url).items():
            ratios = [round_of(statement, options, api, folder) for _ in range(rounds)]
            median = statistics.median(ratios)
            slow |= median > TARGET
            print(f"{name:18} {median:.2f}x  (" + " ".join(f"{one:.2f}" for one in ratios) + ")")
    sys.exit(slow)


if __name__ == "__main__":
    main()
