"""Signing in and out from the shell."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from plait.testing import OAuthServer, oauth_server
from tests.nursery import python

from .conftest import Plait

BROWSER = """
import sys, urllib.request
urllib.request.urlopen(sys.argv[1], timeout=30).read()
"""


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    with oauth_server() as running:
        yield running


@pytest.fixture
def with_login(plait: Plait, server: OAuthServer, tmp_path: Path) -> Plait:
    """The program, in front of a server that wants a login, with a browser that says yes."""
    plait.configure(shop={"url": server.url, "auth": "oauth"}, other={"command": "true"})
    (tmp_path / "browser.py").write_text(BROWSER)
    return plait


def browser_in(plait: Plait) -> dict[str, str]:
    return {"BROWSER": f"{sys.executable} {plait.folder / 'browser.py'} %s"}


def test_a_login_made_in_the_browser_is_used_by_the_next_command(
    with_login: Plait, server: OAuthServer
) -> None:
    refused = with_login("call", "shop", "whoami")
    assert refused.returncode == 5
    assert "plait auth login shop" in refused.stderr

    done = with_login("auth", "login", "shop", **browser_in(with_login))
    assert done.returncode == 0, done.stderr
    assert "signed in to shop with read" in done.stderr

    called = with_login("call", "shop", "whoami")
    assert called.stdout == "client-1 with read\n"

    again = with_login("auth", "login", "shop", "--scope", "write", **browser_in(with_login))
    assert "signed in to shop with write read" in again.stderr
    assert server.counts["register"] == 1
    shown = done.stdout + done.stderr + called.stderr + again.stderr
    assert [token for token in server.issued if token in shown] == []


def test_without_a_browser_the_answer_is_pasted(with_login: Plait, server: OAuthServer) -> None:
    with subprocess.Popen(
        [*python(), "-m", "plait.cli", "auth", "login", "shop", "--no-browser"],
        cwd=with_login.folder,
        env=with_login.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stderr is not None
        address = next(line for line in running.stderr if line.startswith("http")).strip()
        answer = httpx2.get(address).headers["location"]
        _, said = running.communicate(f"{answer}\n", timeout=60)

    assert running.returncode == 0
    assert "signed in to shop" in said
    assert with_login("call", "shop", "whoami").stdout == "client-1 with read\n"


def test_the_status_tells_everything_but_secrets(with_login: Plait, server: OAuthServer) -> None:
    before = with_login("auth", "status")
    with_login("auth", "login", "shop", **browser_in(with_login))
    after = with_login("auth", "status", "--json")
    table = with_login("auth", "status", "shop")

    assert before.returncode == 5
    assert "not signed in" in before.stdout
    (login,) = json.loads(after.stdout)
    assert after.returncode == 0
    assert login["server"] == "shop"
    assert login["signed_in"]
    assert login["renewable"]
    assert login["scopes"] == ["read"]
    assert login["issuer"] == server.issuer
    assert "signed in, renewed in" in table.stdout
    shown = after.stdout + table.stdout + after.stderr
    assert [token for token in server.issued if token in shown] == []


def test_signing_out_forgets_the_login(with_login: Plait, server: OAuthServer) -> None:
    with_login("auth", "login", "shop", **browser_in(with_login))

    done = with_login("auth", "logout", "shop")
    assert done.stderr == ("signed out of shop; the tokens are revoked\n")
    assert server.counts["revoke"] == 2
    assert with_login("auth", "logout", "shop").stderr == "not signed in to shop\n"
    assert with_login("call", "shop", "whoami").returncode == 5


def test_users_have_logins_of_their_own(with_login: Plait) -> None:
    with_login("auth", "login", "shop", "--user", "ann", **browser_in(with_login))

    assert with_login("auth", "status", "--user", "ann").returncode == 0
    assert with_login("auth", "status").returncode == 5


def test_a_server_without_oauth_cannot_be_signed_in_to(with_login: Plait) -> None:
    done = with_login("auth", "login", "other")

    assert done.returncode == 4
    assert '"auth": "oauth"' in done.stderr


def test_an_interrupted_login_ends_at_once(with_login: Plait, server: OAuthServer) -> None:
    import signal

    running = with_login.start("auth", "login", "shop")
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("http"):
            break
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=30)

    assert running.returncode == 130
    assert "Traceback" not in said


def test_the_page_that_ends_a_login_answers_only_to_its_own_question(
    with_login: Plait, server: OAuthServer
) -> None:
    running = with_login.start("auth", "login", "shop")
    assert running.stderr is not None
    address = next(line for line in running.stderr if line.startswith("http")).strip()
    answer = httpx2.get(address).headers["location"]
    port_and_path = answer.partition("?")[0]

    assert httpx2.get(f"{port_and_path}?code=x&state=other").status_code == 400
    assert httpx2.get(port_and_path.replace("callback", "else")).status_code == 404
    with urllib.request.urlopen(answer, timeout=30) as page:
        assert b"Signed in" in page.read()
    _, said = running.communicate(timeout=60)

    assert running.returncode == 0
    assert "signed in to shop" in said


def findings_of(plait: Plait, *arguments: str) -> tuple[dict[str, str], str]:
    """Return the findings of the doctor by server and code, and everything it printed."""
    done = plait("doctor", "--json", *arguments)
    found = json.loads(done.stdout)["findings"]
    by_code = {
        f"{one['server']} {one['code']}": f"{one['message']} / {one['fix']}" for one in found
    }
    return by_code, done.stdout + done.stderr


def test_the_doctor_says_how_to_sign_in_and_how_the_login_stands(
    plait: Plait, server: OAuthServer
) -> None:
    plain = {"Authorization": "Bearer canary-5f1c"}
    plait.configure(
        shop={"url": server.url, "auth": "oauth"},
        keyed={"url": server.url, "headers": plain},
    )
    (plait.folder / "browser.py").write_text(BROWSER)

    before, first = findings_of(plait)
    signed_in = plait("auth", "login", "shop", **browser_in(plait))
    (file,) = (plait.folder / "home").rglob("*.json")
    file.chmod(0o644)
    after, second = findings_of(plait, "shop")

    assert signed_in.returncode == 0, signed_in.stderr
    assert "plait auth login shop" in before["shop auth_required"]
    assert 'set "auth": "oauth"' in before["keyed oauth_offered"]
    assert "headers.Authorization" in before["keyed plain_secret"]
    assert "signed in with read" in after["shop signed_in"]
    assert f"chmod 600 {file}" in after["shop login_file_open"]
    assert "shop ready" in after
    assert "shop auth_required" not in after
    hidden = [*server.issued, "canary-5f1c"]
    assert [secret for secret in hidden if secret in first + second] == []
    assert server.counts["authorize"] == 1
