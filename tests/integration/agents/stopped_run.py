"""A run that hangs in a call: `stopped_run.py INTERFACE URL TRACE STATE`."""

from __future__ import annotations

import asyncio
import sys

from pydantic import SecretStr

from plait import AgentConfig, Message, ModelConfig, get_agent
from plait.testing import stdio_config


def main(interface: str, url: str, trace: str, state: str) -> None:
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
        {"faults": stdio_config(state_dir=state)},
        AgentConfig(trace=trace),
    )
    try:
        asyncio.run(run)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main(*sys.argv[1:])
