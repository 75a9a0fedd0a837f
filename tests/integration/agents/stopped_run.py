"""A run that hangs in a call: `stopped_run.py INTERFACE URL FOLDER SERVER`.

SERVER is the configuration of a server, as JSON. The process writes its id to `FOLDER/pid`, and the
trace to `FOLDER/trace.jsonl`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from pydantic import SecretStr

from plait import AgentConfig, Message, ModelConfig, get_agent


def main(interface: str, url: str, folder: str, server: str) -> None:
    config = ModelConfig(
        id="claude",
        interface=interface,
        model_provider="anthropic",
        model_name="claude-test",
        anthropic_base_url=url,
        anthropic_api_key=SecretStr("any"),
    )
    run = get_agent(config).arun(
        [Message.user("Wait for it.")],
        None,
        {"faults": json.loads(server)},
        AgentConfig(trace=Path(folder, "trace.jsonl")),
    )
    Path(folder, "pid").write_text(str(os.getpid()))
    try:
        asyncio.run(run)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main(*sys.argv[1:])
