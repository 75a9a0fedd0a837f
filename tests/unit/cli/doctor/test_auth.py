"""What is said about logins."""

from __future__ import annotations

import pytest

from plait.cli.commands.auth import state_of
from plait.cli.diagnosis import login_findings
from plait.client.transports.auth.login import LoginStatus

NOW = 1_000_000.0


def login(
    *, signed_in: bool = True, renewable: bool = False, left: float | None = None
) -> LoginStatus:
    return LoginStatus(
        server="shop",
        signed_in=signed_in,
        user=None,
        grant="authorization_code",
        scopes=("read",),
        expires_at=None if left is None else NOW + left,
        renewable=renewable,
    )


@pytest.mark.parametrize(
    ("status", "level", "code", "state"),
    [
        (login(signed_in=False), "error", "not_signed_in", "not signed in"),
        (login(), "ok", "signed_in", "signed in"),
        (login(left=-1), "error", "login_over", "expired"),
        (login(left=-1, renewable=True), "ok", "signed_in", "renewed on next use"),
        (login(left=600), "warn", "login_ends", "signed in for 10 min"),
        (login(left=600, renewable=True), "ok", "signed_in", "signed in, renewed in 10 min"),
        (login(left=86400), "ok", "signed_in", "signed in for 24 h"),
    ],
)
def test_a_login_is_judged_by_what_a_person_must_do(
    status: LoginStatus, level: str, code: str, state: str
) -> None:
    (finding,) = login_findings(status, NOW)

    assert (finding.level, finding.code, finding.server) == (level, code, "shop")
    assert (finding.fix == "plait auth login shop") is (level != "ok")
    assert state_of(status, NOW) == state


def test_a_program_with_credentials_needs_no_person() -> None:
    status = LoginStatus(server="job", signed_in=False, user=None, grant="client_credentials")

    assert list(login_findings(status, NOW)) == []
    assert state_of(status, NOW) == "client credentials"
