"""No secret of the configuration appears in anything a command prints."""

import sys

import pytest

from .conftest import Plait

CANARY = "canary-9f8e7d6c5b4a"


@pytest.mark.parametrize(
    "arguments",
    [
        ("servers",),
        ("servers", "--json"),
        ("servers", "--no-connect", "--json"),
        ("call", "child", "x", "-vv"),
        ("call", "remote", "x", "-vv"),
        ("doctor", "-v"),
    ],
)
def test_a_secret_is_never_printed(plait: Plait, arguments: tuple[str, ...]) -> None:
    program = "import os, sys; sys.exit('cannot use ' + os.environ['API_TOKEN'] + sys.argv[2])"
    plait.configure(
        child={
            "command": sys.executable,
            "args": ["-c", program, "--api-key", f"{CANARY}-argument"],
            "env": {"API_TOKEN": f"{CANARY}-variable"},
        },
        remote={
            "url": f"http://user:{CANARY}-user@127.0.0.1:9/mcp?api_key={CANARY}-query",
            "headers": {"Authorization": f"Bearer {CANARY}-header"},
        },
    )

    done = plait(*arguments)

    assert CANARY not in done.stdout
    assert CANARY not in done.stderr
    assert done.stdout + done.stderr
