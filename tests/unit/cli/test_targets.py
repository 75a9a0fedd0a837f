"""What a server points at is shown without its secrets."""

from mcp.server.mcpserver import MCPServer

from plait.cli.targets import address_of, target_of
from plait.client.config.servers import HttpServer, InProcessServer, StdioServer


def test_a_command_line_can_be_pasted_and_holds_no_secret() -> None:
    server = StdioServer(
        command="npx",
        args=["-y", "some server", "--api-key", "hunter2hunter2", "--token=hunter3hunter3"],
        env={"API_TOKEN": "hunter4hunter4"},
    )

    assert target_of(server) == "npx -y 'some server' --api-key *** --token=***"


def test_a_url_holds_no_credentials() -> None:
    server = HttpServer(url="https://user:hunter2@example.com/mcp?key=hunter2#x")

    assert target_of(server) == "https://example.com/mcp"
    assert address_of(server) == "example.com:443"


def test_a_server_object_is_in_this_process() -> None:
    server = InProcessServer(server=MCPServer("x"))

    assert target_of(server) == "in this process"
    assert address_of(server) is None
