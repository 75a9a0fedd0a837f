"""What `plait doctor` finds about logins; pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from plait.cli.findings import Finding, Level

if TYPE_CHECKING:
    from plait.transports.auth.login import LoginStatus

_LITTLE_SECONDS = 3600.0
"""A login that nobody renews is worth a word this long before its end."""


def auth_findings(login: LoginStatus, now: float) -> Iterator[Finding]:
    """Say how the login of a server stands, and what to do about it."""
    fix = f"plait auth login {login.server}"
    if login.grant == "client_credentials":
        return
    if not login.signed_in:
        yield _finding(login, "error", "not_signed_in", "nobody has signed in", fix)
    elif login.renewable or login.expires_at is None:
        yield _finding(login, "ok", "signed_in", f"signed in{_with(login)}")
    elif login.expires_at <= now:
        yield _finding(login, "error", "login_over", "the login has ended", fix)
    elif login.expires_at - now < _LITTLE_SECONDS:
        minutes = int((login.expires_at - now) // 60)
        text = f"the login ends in {minutes} min, and cannot be renewed without a person"
        yield _finding(login, "warn", "login_ends", text, fix)
    else:
        yield _finding(login, "ok", "signed_in", f"signed in{_with(login)}")


def _with(login: LoginStatus) -> str:
    return f" with {' '.join(login.scopes)}" if login.scopes else ""


def _finding(
    login: LoginStatus, level: Level, code: str, message: str, fix: str | None = None
) -> Finding:
    return Finding(server=login.server, level=level, code=code, message=message, fix=fix)
