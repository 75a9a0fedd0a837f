"""A worker process: measures one contender, as requested line by line on standard input.

Run: `python -m benchmarks.compare.workers <contender>`
"""

from __future__ import annotations

import importlib
import sys

PEERS = {
    "limit": ("limit", "Limit"),
    "mcp": ("sdk", "Sdk"),
    "adapters": ("adapters", "HeldSession"),
    "adapters-per-call": ("adapters", "SessionPerCall"),
    "langchain.mcp": ("langchain_mcp", "LangChainMcp"),
    "mcp-use": ("mcp_use_client", "McpUse"),
    "plait": ("plait_client", "CallersLoop"),
    "plait-own": ("plait_client", "OwnLoop"),
    "toolbox": ("plait_client", "PlaitToolbox"),
}
"""The module and class of each contender."""


def main() -> None:
    """Load one contender and serve its requests."""
    module, name = PEERS[sys.argv[1]]
    from benchmarks.compare.workers.serve import serve

    serve(getattr(importlib.import_module(f"benchmarks.compare.workers.{module}"), name)())


if __name__ == "__main__":
    main()
