"""FastMCP's proxy in front of the servers of an mcp.json: `fastmcp_proxy.py CONFIG PORT`."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    create_proxy = import_module("fastmcp.server").create_proxy
    proxy = create_proxy(json.loads(Path(sys.argv[1]).read_text()), name="proxy")
    proxy.run(transport="http", port=int(sys.argv[2]), show_banner=False)
