"""An MCP server on stdio without an SDK that writes far too much: `flood_stdio.py`.

The tool `line` answers with a result of `megabytes` in one line, its id in front or, with
`late_id`, at the end; `refusal` answers with an error of that size; `dense` answers with as much
in empty objects; `endless` writes as much without a newline, and then nothing more; `notice` sends
a notification of that size before its answer, `stderr` as much on standard error. `chatter` sends
so many `lines` of notifications before its answer, `noise` so many that are no MCP, and `requests`
so many requests, without reading the answers.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from payloads import CAPABILITIES, LEGACY_VERSION, SERVER_INFO

Json = dict[str, Any]

LINES = {
    "chatter": b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}',
    "noise": b'{"a":',
    "requests": b'{"jsonrpc":"2.0","id":"%d%b","method":"ping"}',
}
_NAMES = ("line", "refusal", "dense", "endless", "notice", "stderr", *LINES, "good")
_TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in _NAMES]
_MEGABYTE = b"x" * 1_000_000


def write(*parts: bytes, to: Any = None) -> None:
    stream = to or sys.stdout.buffer
    for part in parts:
        stream.write(part)
    stream.flush()


def flood(before: bytes, megabytes: int, after: bytes) -> None:
    write(before)
    for _ in range(megabytes):
        write(_MEGABYTE)
    write(after)


def call(number: int, name: str, arguments: Json) -> None:
    text = b'"result":{"content":[{"type":"text","text":"'
    frame = b'"jsonrpc":"2.0","id":%d' % number
    megabytes = arguments.get("megabytes", 0)
    match name:
        case "line" if arguments.get("late_id"):
            flood(b"{" + text, megabytes, b'"}]},' + frame + b"}\n")
        case "line":
            flood(b"{" + frame + b"," + text, megabytes, b'"}]}}\n')
        case "refusal":
            flood(b"{" + frame + b',"error":{"code":-32000,"message":"', megabytes, b'"}}\n')
            return
        case "dense":
            objects = b"{}," * (megabytes * 333_333)
            result = b'"result":{"content":[],"structuredContent":{"a":[' + objects + b"1]}}}\n"
            write(b"{" + frame + b"," + result)
            return
        case "endless":
            flood(b"{" + text, megabytes, b"")
            return
        case "notice":
            params = b'"params":{"level":"info","data":"'
            method = b'{"jsonrpc":"2.0","method":"notifications/message",'
            flood(method + params, megabytes, b'"}}\n')
        case "stderr":
            for _ in range(megabytes):
                write(_MEGABYTE, to=sys.stderr.buffer)
        case "requests":
            name_of = _MEGABYTE * megabytes
            for index in range(arguments["lines"]):
                write(LINES[name] % (index, name_of) + b"\n")
        case _ if name in LINES:
            write((LINES[name] + b"\n") * arguments["lines"])
        case _:
            pass
    if name != "line":
        write(b"{" + frame + b"," + text + b'good"}]}}\n')


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        number, params = message["id"], message.get("params") or {}
        match message["method"]:
            case "initialize":
                result: Json = {
                    "protocolVersion": LEGACY_VERSION,
                    "capabilities": CAPABILITIES,
                    "serverInfo": SERVER_INFO,
                }
            case "tools/list":
                result = {"tools": _TOOLS}
            case "tools/call":
                call(number, params["name"], params.get("arguments") or {})
                continue
            case _:
                result = {}
        write(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode() + b"\n")


if __name__ == "__main__":
    main()
