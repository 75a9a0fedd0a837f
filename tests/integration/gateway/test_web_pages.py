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


def test_the_page_shows_requests_and_histories_without_tokens(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(fail=["discovery=500x1"])
    secret = {"Authorization": "Bearer canary-91"}
    httpx2.get(f"{gateway.url}/agents/x/mcpServers", headers=secret)
    address = f"{gateway.url}/agents/real-time-threat-protection/chat-message"
    httpx2.post(address, json={"userMessage": "<b>hello</b>"}, headers=secret)

    page = httpx2.get(gateway.url)

    assert page.headers["refresh"] == "3"
    for part in ("/agents/servers/mail", "GET /agents/x/mcpServers", "&lt;b&gt;hello&lt;/b&gt;"):
        assert part in page.text
    assert 'class="badge bad">500<' in page.text
    assert "canary-91" not in page.text
