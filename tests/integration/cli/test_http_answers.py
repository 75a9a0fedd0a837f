"""HTTP servers that answer with something else than MCP."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from .conftest import Plait


@contextmanager
def answering(status: int) -> Generator[str]:
    """Run a server that answers everything with one status; yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST = do_DELETE = answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/api"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("status", "exit_code", "hint"),
    [
        (401, 5, "hint: set the Authorization header"),
        (403, 5, "hint: the credentials are valid"),
        (404, 3, "hint: check the path of the URL (try /mcp or /sse)"),
        (500, 3, "hint: the server failed"),
    ],
)
def test_a_status_has_its_exit_code_and_its_hint(
    plait: Plait, status: int, exit_code: int, hint: str
) -> None:
    with answering(status) as url:
        plait.configure(web={"url": url})

        done = plait("call", "web", "search")

    assert done.returncode == exit_code, done.stderr
    assert hint in done.stderr
    assert "TaskGroup" not in done.stderr


def test_the_doctor_tells_what_a_status_means(plait: Plait) -> None:
    with answering(401) as locked, answering(404) as lost:
        plait.configure(locked={"url": locked}, lost={"url": lost})

        done = plait("doctor", "--json")

    assert done.returncode == 3
    found = {
        finding["server"]: (finding["code"], finding["fix"])
        for finding in json.loads(done.stdout)["findings"]
    }
    assert found["locked"][0] == "auth_required"
    assert "Authorization" in found["locked"][1]
    assert found["lost"][0] == "endpoint_not_found"
