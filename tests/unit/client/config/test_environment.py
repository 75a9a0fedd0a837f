"""A server program gets few variables of its parent, and all of its own."""

from __future__ import annotations

import os

from mcp.client.stdio import DEFAULT_INHERITED_ENV_VARS

from plait.client.config.environment import child_environment
from plait.client.config.servers import StdioServer

PARENT = {
    "HOME": "/home/ann",
    "PATH": "/bin",
    "LANG": "C.UTF-8",
    "LC_ALL": "C",
    "TMPDIR": "/tmp",
    "https_proxy": "http://proxy",
    "NO_PROXY": "localhost",
    "SSL_CERT_FILE": "/ca.pem",
    "SSL_CERT_DIR": "/certs",
    "NODE_EXTRA_CA_CERTS": "/ca.pem",
    "npm_config_registry": "http://registry",
    "UV_CACHE_DIR": "/cache",
    "XDG_CACHE_HOME": "/cache",
    "TERM": "() { :; }; echo unsafe",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "eu",
    "OTHER": "x",
    "home": "not HOME",
}

USUAL = {
    name: value
    for name, value in PARENT.items()
    if name not in ("TERM", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "OTHER", "home")
}


def test_only_the_usual_variables_are_passed_on() -> None:
    assert child_environment(StdioServer(command="a"), PARENT, windows=False) == USUAL


def test_everything_the_sdk_passes_on_is_passed_on() -> None:
    parent = dict.fromkeys(DEFAULT_INHERITED_ENV_VARS, "x")

    assert child_environment(StdioServer(command="a"), parent, windows=os.name == "nt") == parent


def test_named_variables_are_passed_on_too() -> None:
    by_name = StdioServer(command="a", inherit_env=("OTHER", "MISSING"))
    by_glob = StdioServer(command="a", inherit_env=("AWS_*",))

    assert child_environment(by_name, PARENT, windows=False) == {**USUAL, "OTHER": "x"}
    assert child_environment(by_glob, PARENT, windows=False) == {
        **USUAL,
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "eu",
    }


def test_all_variables_are_passed_on_when_asked_for_but_no_shell_functions() -> None:
    server = StdioServer(command="a", inherit_env=True)

    assert child_environment(server, PARENT) == {
        name: value for name, value in PARENT.items() if name != "TERM"
    }


def test_the_servers_own_variables_win() -> None:
    server = StdioServer(command="a", env={"PATH": "/own", "NEW": "1"})

    assert child_environment(server, PARENT, windows=False) == {
        **USUAL,
        "PATH": "/own",
        "NEW": "1",
    }


def test_names_have_no_case_on_windows() -> None:
    parent = {"Path": "p", "SystemRoot": "r", "Secret": "s", "USER": "u"}

    environment = child_environment(
        StdioServer(command="a", inherit_env=("secret",)), parent, windows=True
    )

    assert environment == {"Path": "p", "SystemRoot": "r", "Secret": "s"}
