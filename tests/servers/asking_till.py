"""A server of the handshake era on stdio that asks before it pays much; no SDK, starts at once."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

LIMIT = 100
"""Larger amounts need the user's consent."""
LATER = 77
"""An amount that is paid when the user was asked about another one."""
NEVER = 78
"""An amount whose call gets no response."""

_SCHEMA = {"type": "object", "properties": {"amount": {"type": "integer"}}}
_TOOLS = [{"name": "pay", "inputSchema": _SCHEMA}]
_FORM = {"type": "object", "properties": {"sure": {"type": "boolean"}}}


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def main() -> None:
    ledger = Path(sys.argv[1])
    waiting: dict[str, tuple[Any, int]] = {}
    later: list[Any] = []

    def pay(request_id: Any, amount: int, *, sure: bool = True) -> None:
        if sure:
            with ledger.open("a") as book:
                book.write(f"{amount}\n")
        text = f"paid {amount}" if sure else "not sure"
        send(id=request_id, result={"content": [{"type": "text", "text": text}]})

    for line in sys.stdin:
        message = json.loads(line)
        request_id, params = message.get("id"), message.get("params") or {}
        match message.get("method"):
            case "initialize":
                info = {"name": "till", "version": "1"}
                result = {"protocolVersion": "2025-11-25", "serverInfo": info}
                send(id=request_id, result={**result, "capabilities": {"tools": {}}})
            case "tools/list":
                send(id=request_id, result={"tools": _TOOLS})
            case "tools/call":
                amount = params["arguments"]["amount"]
                if amount == LATER:
                    later.append(request_id)
                if amount in {LATER, NEVER}:
                    continue
                if amount <= LIMIT:
                    pay(request_id, amount)
                    continue
                question = f"question-{len(waiting)}"
                waiting[question] = request_id, amount
                form = {"message": f"Pay {amount}?", "requestedSchema": _FORM}
                send(id=question, method="elicitation/create", params=form)
                while later:
                    pay(later.pop(), LATER)
            case None if request_id in waiting:
                asked = waiting.pop(request_id)
                reply = message.get("result") or {}
                pay(*asked, sure=(reply.get("content") or {}).get("sure", False))
            case None:
                pass
            case _ if request_id is not None:
                send(id=request_id, error={"code": -32601, "message": "unknown method"})
            case _:
                pass


if __name__ == "__main__":
    main()
