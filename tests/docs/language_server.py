"""A language server for editors, and what it shows for a place in a program."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def hover_texts(program: str, places: Iterable[str], folder: Path) -> dict[str, str]:
    """Return what an editor shows where each of these texts first occurs in a program."""
    file = folder / "program.py"
    file.write_text(program)
    venv = Path(sys.prefix)
    (folder / "pyproject.toml").write_text(
        f'[tool.basedpyright]\nvenvPath = {json.dumps(str(venv.parent))}\nvenv = "{venv.name}"\n'
    )
    command = [Path(sys.executable).with_name("basedpyright-langserver"), "--stdio"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            server = _LanguageServer(process)
            server.open(file, program)
            return {place: server.hover(file, program, program.index(place)) for place in places}
        finally:
            process.kill()


class _LanguageServer:
    """Speaks the language server protocol with a process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input, self._output = process.stdin, process.stdout
        self._requests = 0

    def open(self, file: Path, text: str) -> None:
        """Open a file of a workspace."""
        folder = file.parent.as_uri()
        self._request(
            "initialize",
            processId=None,
            rootUri=folder,
            capabilities={"textDocument": {"hover": {"contentFormat": ["plaintext"]}}},
            workspaceFolders=[{"uri": folder, "name": "program"}],
        )
        self._send({"method": "initialized", "params": {}})
        document = {"uri": file.as_uri(), "languageId": "python", "version": 1, "text": text}
        self._send({"method": "textDocument/didOpen", "params": {"textDocument": document}})

    def hover(self, file: Path, text: str, offset: int) -> str:
        """Return the text that is shown for a position."""
        before = text[:offset]
        position = {
            "line": before.count("\n"),
            "character": len(before) - before.rfind("\n") - 1,
        }
        document = {"uri": file.as_uri()}
        found = self._request("textDocument/hover", textDocument=document, position=position)
        return "" if found is None else found["contents"]["value"]

    def _request(self, method: str, **params: object) -> Any:
        self._requests += 1
        self._send({"id": self._requests, "method": method, "params": params})
        while True:
            message = self._receive()
            if "method" not in message and message.get("id") == self._requests:
                return message["result"]
            if "method" in message and "id" in message:
                items = (message.get("params") or {}).get("items")
                self._send({"id": message["id"], "result": items and [{} for _ in items]})

    def _send(self, message: dict[str, object]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._input.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._input.flush()

    def _receive(self) -> dict[str, Any]:
        length = 0
        while line := self._output.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return json.loads(self._output.read(length))
