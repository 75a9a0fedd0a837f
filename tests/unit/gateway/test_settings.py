"""Where the gateway is, and whether this is development."""

from __future__ import annotations

import pytest

from plait import ConfigError
from plait.gateway.credentials import PLATFORM, is_development, settings_from


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, False),
        ({"PYTHON_ENVIRONMENT": "Development"}, True),
        ({"PYTHON_ENVIRONMENT": " development "}, True),
        ({"PYTHON_ENVIRONMENT": "Production", "ENVIRONMENT": "Development"}, False),
        ({"PYTHON_ENVIRONMENT": "", "ENVIRONMENT": "Development"}, True),
        ({"ENVIRONMENT": "staging", "ASPNETCORE_ENVIRONMENT": "Development"}, False),
        ({"ASPNETCORE_ENVIRONMENT": "Development", "DOTNET_ENVIRONMENT": "x"}, True),
        ({"DOTNET_ENVIRONMENT": "Development"}, True),
        ({"NODE_ENV": "development"}, False),
    ],
)
def test_the_first_variable_that_says_something_counts(
    environ: dict[str, str], expected: bool
) -> None:
    assert is_development(environ) is expected


def test_nothing_said_is_production_at_the_hosted_gateway() -> None:
    settings = settings_from({})

    assert (settings.development, settings.use_manifest) == (False, False)
    assert settings.endpoint == PLATFORM
    assert settings.discovery_url("agent") == f"{PLATFORM}/agents/v2/agent/mcpServers"
    assert settings.server_url("mail") == f"{PLATFORM}/agents/servers/mail"
    assert settings.history_url == f"{PLATFORM}/agents/real-time-threat-protection/chat-message"


def test_the_first_version_has_its_own_address() -> None:
    settings = settings_from({}, api_version=1)

    assert settings.discovery_url("agent") == f"{PLATFORM}/agents/agent/mcpServers"


def test_a_manifest_makes_development_and_development_may_do_without_one() -> None:
    asked = settings_from({}, use_manifest=True)
    refused = settings_from({"ENVIRONMENT": "Development"}, use_manifest=False)

    assert (asked.development, asked.use_manifest) == (True, True)
    assert (refused.development, refused.use_manifest) == (True, False)


def test_an_address_is_taken_without_blanks_and_slashes_at_its_end() -> None:
    settings = settings_from({"MCP_PLATFORM_ENDPOINT": " http://localhost:5309// "})

    assert settings.endpoint == "http://localhost:5309"


def test_what_an_agent_is_called_cannot_change_the_address() -> None:
    url = settings_from({}).discovery_url("../../evil?x=1#")

    assert url == f"{PLATFORM}/agents/v2/..%2F..%2Fevil%3Fx%3D1%23/mcpServers"


@pytest.mark.parametrize("address", ["localhost:5309", "ftp://x", "http://", "gateway"])
def test_an_address_that_is_none_is_an_error(address: str) -> None:
    with pytest.raises(ConfigError, match="MCP_PLATFORM_ENDPOINT"):
        settings_from({"MCP_PLATFORM_ENDPOINT": address})
