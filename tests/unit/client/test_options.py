"""Options that are passed to a client in Python."""

from __future__ import annotations

from typing import Any

import pytest

from plait import ConfigError, MultiServerMCPClient, Toolbox

SERVERS = {"files": {"command": "files"}}


@pytest.mark.parametrize("client", [MultiServerMCPClient, Toolbox])
def test_a_misspelt_option_is_an_error_with_a_suggestion(client: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        client(SERVERS, tool_name_prefx=True)

    (problem,) = caught.value.problems
    assert problem.code == "unknown_key"
    assert "tool_name_prefix" in (problem.suggestion or "")


@pytest.mark.parametrize("client", [MultiServerMCPClient, Toolbox])
def test_an_option_that_is_none_has_its_default(client: Any) -> None:
    with client(SERVERS, lock=None, sanitize=None, default_tool_timeout=None) as opened:
        box = getattr(opened, "toolbox", opened)

        assert box.sanitizes


def test_a_toolbox_names_the_options_that_it_ignores(caplog: pytest.LogCaptureFixture) -> None:
    Toolbox({"mcpServers": SERVERS, "profile": "openai", "resources_as_tools": True})

    assert caplog.messages == ["Toolbox ignores these options: profile, resources_as_tools"]
