"""The command line of the stand-ins for models: `python -m plait.testing.llm anthropic`."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import Any

from plait.errors import ConfigError
from plait.models.scripts import read_script
from plait.testing.llm.anthropic import AnthropicServer
from plait.testing.llm.model_server import ProviderServer
from plait.testing.llm.openai import OpenAIServer


def main(argv: Sequence[str] | None = None) -> None:
    """Serve one API, print its URL, and exit at SIGTERM or SIGINT."""
    stopped = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    parser = argparse.ArgumentParser(
        prog="python -m plait.testing.llm",
        description="Stand in for the API of a model. Without a script it makes the tool calls in "
        'the user text (lines such as: CALL add {"a": 1}), or repeats the text.',
    )
    parser.add_argument("api", choices=["anthropic", "openai"])
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one")
    parser.add_argument("--script", metavar="FILE", help="turns of the model: a JSON array")
    parser.add_argument("--key", help="the only key that is accepted")
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="NAME",
        help="an available model; may be repeated",
    )
    parser.add_argument(
        "--every-request",
        action="store_true",
        help="requests without tools consume the script too (anthropic)",
    )
    options = parser.parse_args(argv)
    common: dict[str, Any] = {"key": options.key, "port": options.port}
    try:
        script = None if options.script is None else read_script(options.script)
        if options.api == "openai":
            models = options.model or ("test-model",)
            api: ProviderServer = OpenAIServer(script, models=models, **common)
        else:
            every = options.every_request
            api = AnthropicServer(script, models=options.model, only_with_tools=not every, **common)
        with api:
            print(api.url, flush=True)  # noqa: T201
            stopped.wait()
    except ConfigError as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"cannot serve on port {options.port}: {error.strerror or error}")


if __name__ == "__main__":
    main()
