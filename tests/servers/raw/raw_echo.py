"""An MCP server on stdio without an SDK that checks nothing: `raw_echo.py TOOLS`.

`TOOLS` is a JSON file with a list of tools. The tool `show` returns its argument `result` as the
result of the call, and `load` the JSON of the file at its argument `path`; every other tool
returns its arguments as JSON text. The tool `crash` ends the process unless there is a file at its
argument `unless`, which it makes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from payloads import CAPABILITIES, LEGACY_VERSION, SERVER_INFO

Json = dict[str, Any]


def result_of(method: str, params: Json, tools: list[Json]) -> Json:
    match method:
        case "initialize":
            return {
                "protocolVersion": LEGACY_VERSION,
                "capabilities": CAPABILITIES,
                "serverInfo": SERVER_INFO,
            }
        case "ping":
            return {}
        case "tools/list":
            return {"tools": tools}
        case "tools/call" if params["name"] == "show":
            return params["arguments"]["result"]
        case "tools/call" if params["name"] == "load":
            return json.loads(Path(params["arguments"]["path"]).read_text())
        case "tools/call" if params["name"] == "crash":
            marker = Path(params["arguments"]["unless"])
            if not marker.exists():
                if marker.parent.exists():
                    marker.touch()
                raise SystemExit
            return {"content": [{"type": "text", "text": "alive"}]}
        case "tools/call":
            return {"content": [{"type": "text", "text": json.dumps(params["arguments"])}]}
        case _:
            raise LookupError(method)


def main() -> None:
    tools = json.loads(Path(sys.argv[1]).read_text())
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        reply: Json = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            reply["result"] = result_of(message["method"], message.get("params") or {}, tools)
        except LookupError as error:
            reply["error"] = {"code": -32601, "message": f"Method not found: {error}"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
