"""A server without an SDK whose answers stand in a file: `table_server.py FILE`.

The file is a JSON object: the results of `tools/call` by the name of the tool.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def result_of(message: Json, results: Json) -> Json | None:
    params = message.get("params") or {}
    match message["method"]:
        case "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}, "resources": {}},
                "serverInfo": {"name": "table", "version": "1"},
            }
        case "tools/list":
            schema = {"type": "object", "properties": {}}
            return {"tools": [{"name": name, "inputSchema": schema} for name in results]}
        case "tools/call":
            return results[params["name"]]
        case "resources/read" if "missing" not in params["uri"]:
            return {"contents": [{"uri": params["uri"], "text": f"text of {params['uri']}"}]}
        case _:
            return None


def main() -> None:
    results = json.loads(Path(sys.argv[1]).read_text())
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        reply: Json = {"jsonrpc": "2.0", "id": message["id"]}
        result = result_of(message, results)
        if result is None:
            reply["error"] = {"code": -32601, "message": "Method not found"}
        else:
            reply["result"] = result
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
