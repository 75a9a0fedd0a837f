"""What a lockfile says of a server: enough to know it again, and nothing that may be secret."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plait.client.catalog.lock import (
    Identity,
    LockedServer,
    Lockfile,
    identity_of,
    text_from_lockfile,
)
from plait.client.config.read import read_config
from plait.client.config.servers import HttpServer, ServerConfig, StdioServer

SECRET = "hunter2-Zx9"
WORDS = "correct-horse"
TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ456789"

STYLES = (
    *("--token=SECRET", "--api-key|SECRET", "-p|SECRET", "-pSECRET", "-k|SECRET", "--pass|SECRET"),
    *("--auth|me:SECRET", "--user|me:SECRET", "-u|me:SECRET", "--login|SECRET", "--access|SECRET"),
    *("--connect|SECRET", "https://me:SECRET@example.com/mcp", "https://SECRET@example.com/mcp"),
    *("https://example.com/mcp?api_key=SECRET", "https://example.com/mcp?q=SECRET"),
    # A key in the path of a URL: long, short, of words, after a flag or in one, encoded.
    *("https://example.com/mcp/TOKEN", "https://example.com/s/SECRET/mcp"),
    *("https://example.com/WORDS", "--url=https://example.com/hooks/WORDS/mcp"),
    *("--url|https://example.com/SECRET", "--url=https://example.com/SECRET/sse"),
    *("https://example.com/bot123456:SECRET/mcp", "https://example.com/mcp%2FSECRET"),
    *("API_KEY=SECRET", "ENDPOINT_AUTHZ=SECRET", "-e|DB=SECRET", "--env=SESSION=SECRET"),
    *("--header|X-Api-Key: SECRET", "--header=Authorization: Bearer SECRET"),
    *('{"apiKey": "SECRET"}', '--config|{"value": "SECRET"}', "Bearer|SECRET", "Basic SECRET"),
    *("postgresql://me:SECRET@db:5432/shop", "Server=db;User Id=me;Password=SECRET;"),
    *("jdbc:mysql://db/shop?user=me&password=SECRET", "SECRET", "--|SECRET", "TOKEN"),
    *("-p|4711", "4711"),
)
"""Ways to pass a secret on a command line, with `|` between arguments."""


def told(server: ServerConfig, folder: Path = Path("/project")) -> Identity:
    return identity_of(server, {"name": "shop", "version": "1"}, folder)


def lockfile_of(server: ServerConfig) -> str:
    return text_from_lockfile(Lockfile({"shop": LockedServer.of(told(server), ())}))


@pytest.mark.parametrize("command", ["shop-server", "npx"])
@pytest.mark.parametrize("style", STYLES)
def test_no_argument_that_may_be_secret_is_in_the_lockfile(style: str, command: str) -> None:
    first = ["-y", "shop-server"] if command == "npx" else []

    args = (
        style.replace("SECRET", SECRET).replace("TOKEN", TOKEN).replace("WORDS", WORDS).split("|")
    )

    text = lockfile_of(StdioServer(command=command, args=[*first, *args]))

    assert SECRET not in text
    assert TOKEN not in text
    assert WORDS not in text
    assert "4711" not in text
    assert "shop-server" in text


@pytest.mark.parametrize(
    "url",
    [
        *(f"https://me:{SECRET}@example.com/mcp", f"https://example.com/mcp?key={SECRET}"),
        *(f"https://example.com/mcp?q={SECRET}", f"https://example.com/{TOKEN}/mcp"),
        f"https://example.com/bot123456:{TOKEN}/mcp",
        f"https://example.com/eyJhbGciOiJIUzI1NiJ9.{TOKEN}.abc/mcp",
    ],
)
def test_nothing_secret_of_a_url_its_headers_and_a_programs_variables_is_there(url: str) -> None:
    remote = lockfile_of(HttpServer(url=url, headers={"X-Key": SECRET}))
    local = lockfile_of(StdioServer(command="shop", env={"DB": SECRET}))

    assert SECRET not in remote + local
    assert TOKEN not in remote
    assert "https://example.com/" in remote


def test_a_secret_that_a_server_reports_as_its_name_is_not_there() -> None:
    server = HttpServer(url="https://example.com/mcp", headers={"X-Key": SECRET})

    made = identity_of(server, {"name": f"shop of {SECRET}", "version": SECRET}, Path("/project"))

    assert (made.name, made.version) == ("shop of ***", "***")


def test_variables_are_written_as_they_are_configured() -> None:
    environ = {
        "SHOP": "/opt/shop",
        "SHOP_TOKEN": SECRET,
        "REGION": "eu-west",
        "HOST": "example.com",
    }
    config = read_config(
        {
            "shop": {
                "command": "${SHOP}/bin/serve",
                "args": ["--token=${SHOP_TOKEN}", "--region", "${REGION}", "${SHOP}/data"],
                "env": {"KEY": "${SHOP_TOKEN}"},
            },
            "web": {"url": "https://${HOST}/mcp?key=${SHOP_TOKEN}"},
        },
        environ=environ,
    )

    shop, web = (told(config.servers[name]) for name in ("shop", "web"))

    assert shop.target == "${SHOP}/bin/serve --token=${SHOP_TOKEN} --region ${REGION} ${SHOP}/data"
    assert (shop.env, shop.hidden) == (("KEY",), None)
    assert web.target == "https://${HOST}/mcp"


def test_a_reviewer_reads_what_runs() -> None:
    commands = {
        "npx -y @modelcontextprotocol/server-filesystem@1.2.3 ./data": [
            *("npx", "-y", "@modelcontextprotocol/server-filesystem@1.2.3", "/project/data"),
        ],
        "uvx mcp-server-git==1.0 --repository ~/src": [
            *("uvx", "mcp-server-git==1.0", "--repository", str(Path.home() / "src")),
        ],
        "python -m shop.server --port 8080": ["python", "-m", "shop.server", "--port", "8080"],
        "./bin/shop stdio": ["/project/bin/shop", "stdio"],
        "docker run -i --rm example/shop:2": ["docker", "run", "-i", "--rm", "example/shop:2"],
        "node server.js": ["node", "server.js"],
        "npx mcp-remote https://example.com:8443/v1/mcp/${TEAM}/": [
            *("npx", "mcp-remote", "https://example.com:8443/v1/mcp/${TEAM}/"),
        ],
    }
    for shown, (command, *args) in commands.items():
        made = told(StdioServer(command=command, args=args))
        assert (made.target, made.hidden) == (shown, None)


SHOP = StdioServer(command="/opt/shop/serve", args=["--region", "europe"], cwd="/data")


@pytest.mark.parametrize(
    "change",
    [
        {"command": "/tmp/other/serve"},
        {"args": ["--region", "asia"]},
        {"cwd": "/elsewhere"},
        {"env": {"LD_PRELOAD": "x.so"}},
        {"inherit_env": ("AWS_SECRET_ACCESS_KEY",)},
        {"inherit_env": True},
    ],
)
def test_another_program_folder_argument_or_variable_is_another_server(
    change: dict[str, Any],
) -> None:
    assert told(replace(SHOP, **change)).address != told(SHOP).address


def test_another_path_of_an_address_is_another_server_though_it_is_not_shown() -> None:
    first, second = (
        told(replace(SHOP, args=[f"https://example.com/{step}"])) for step in ("Team1", "Team2")
    )

    assert first.target == second.target == "/opt/shop/serve https://example.com/…"
    assert first.hidden != second.hidden


def test_a_renewed_secret_is_the_same_server() -> None:
    made = [
        told(replace(SHOP, args=["--token", value], env={"KEY": value}))
        for value in ("old1", "new2")
    ]

    assert made[0] == made[1]
