"""A web page in a browser of this machine reaches no mock gateway."""

from __future__ import annotations

import httpx2
import pytest

from .conftest import MakeGateway

PATHS = ("/", "/requests", "/health", "/agents/x/mcpServers", "/agents/servers/mail")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:80"},
        {"Host": "localhost@evil.example"},
        {"Host": "127.0.0.1:1.evil.example"},
        {"Host": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:1.evil.example"},
        {"Origin": "http://evil.example@127.0.0.1"},
        {"Origin": "null"},
    ],
    ids=str,
)
def test_a_page_under_another_name_gets_nothing(
    make_gateway: MakeGateway, path: str, headers: dict[str, str]
) -> None:
    gateway = make_gateway()

    answer = httpx2.get(f"{gateway.url}{path}", headers=headers)

    assert answer.status_code == (421 if "Host" in headers else 403)
    assert gateway.requests() == []


def test_names_of_this_machine_are_served(make_gateway: MakeGateway) -> None:
    gateway = make_gateway()
    port = gateway.url.rpartition(":")[2]

    for host in ("127.0.0.1", f"localhost:{port}", f"[::1]:{port}"):
        headers = {"Host": host, "Origin": f"http://{host}"}
        assert httpx2.get(f"{gateway.url}/health", headers=headers).status_code == 200
