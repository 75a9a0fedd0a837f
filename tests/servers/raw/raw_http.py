"""The twin of `raw_stdio.py` on Streamable HTTP: `raw_http.py MODE [--answer json|sse]`.

The modes are in `payloads.py`. A session id is given out in the legacy era and not checked.
"""

from __future__ import annotations

import argparse
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from payloads import MODES, answer


class RawHandler(BaseHTTPRequestHandler):
    """Answers one request; the settings hang on the server object."""

    protocol_version = "HTTP/1.1"
    mode = "all"
    era = "both"
    as_sse = False

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = answer(self.mode, message, era=self.era)
        if reply is None:
            self._send(202, "text/plain", b"")
            return
        status = 400 if "error" in reply and message["method"] == "server/discover" else 200
        body = json.dumps(reply).encode()
        session = {"Mcp-Session-Id": "raw-session"} if message["method"] == "initialize" else {}
        if self.as_sse and status == 200:
            event = b"event: message\ndata: " + body + b"\n\n"
            self._send(status, "text/event-stream", event, session)
        else:
            self._send(status, "application/json", body, session)

    def do_GET(self) -> None:
        self._send(405, "text/plain", b"")

    def do_DELETE(self) -> None:
        self._send(200, "text/plain", b"")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Stay quiet."""

    def _send(
        self, status: int, kind: str, body: bytes, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--era", choices=["both", "legacy", "modern"], default="both")
    parser.add_argument("--answer", choices=["json", "sse"], default="json")
    parser.add_argument("--port", type=int, default=0)
    arguments = parser.parse_args()
    RawHandler.mode = arguments.mode
    RawHandler.era = arguments.era
    RawHandler.as_sse = arguments.answer == "sse"
    with ThreadingHTTPServer(("127.0.0.1", arguments.port), RawHandler) as server:
        server.daemon_threads = True
        print(
            f"listening on http://127.0.0.1:{server.server_port}/mcp", file=sys.stderr, flush=True
        )
        server.serve_forever()


if __name__ == "__main__":
    main()
