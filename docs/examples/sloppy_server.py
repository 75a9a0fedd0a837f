"""A server that was written by hand, without a library, and not quite right."""

import json
import sys

ANSWERS: dict[str, object] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "sloppy"},
    },
    "tools/list": {
        "tools": [
            {"name": "look", "description": "Look around.", "inputSchema": {"type": "object"}},
            {"name": "jump", "description": "This one has no inputSchema."},
        ]
    },
    "tools/call": {
        "content": [
            {"type": "text", "text": "a table"},
            {"type": "hologram", "shape": "chair"},
            {"type": "resource", "resource": {"uri": "room://lamp"}},
        ]
    },
}
UNKNOWN = {"code": -32601, "message": "Method not found"}

print("Sloppy server, starting ...")
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        answer = ANSWERS.get(request["method"])
        result = {"error": UNKNOWN} if answer is None else {"result": answer}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **result}), flush=True)
