"""What the command line finds in its environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plait import ModelConfig
from plait.agents.engines.claude_agent_sdk.agent import (
    environment_for,
    needs_login,
)

FOLDER = Path("/run/of/one")
ISOLATED = {"CLAUDE_CONFIG_DIR", "HOME", "USERPROFILE"}


def model(**facts: Any) -> ModelConfig:
    return ModelConfig(id="m", model_name="m", interface="claude_agent_sdk", **facts)


def test_limits_of_the_model_are_handed_on() -> None:
    made = environment_for(model(max_tokens=7, max_retries=0, request_timeout=1.5), FOLDER, {})

    assert made["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "7"
    assert made["CLAUDE_CODE_MAX_RETRIES"] == "0"
    assert made["API_TIMEOUT_MS"] == "1500"


@pytest.mark.parametrize(
    ("facts", "given", "isolated"),
    [
        ({"anthropic_api_key": "k"}, {}, ISOLATED),
        ({"anthropic_base_url": "https://llm.example"}, {}, ISOLATED),
        ({}, {"ANTHROPIC_API_KEY": "k"}, ISOLATED),
        ({}, {"ANTHROPIC_AUTH_TOKEN": "k"}, ISOLATED),
        ({}, {"CLAUDE_CODE_OAUTH_TOKEN": "k"}, ISOLATED),
        ({}, {"CLAUDE_CODE_USE_BEDROCK": "1"}, {"CLAUDE_CONFIG_DIR"}),
        ({}, {}, set[str]()),
        ({}, {"ANTHROPIC_BASE_URL": "https://llm.example"}, set[str]()),
    ],
)
def test_folders_of_the_person_are_used_only_where_their_login_is_needed(
    facts: dict[str, Any], given: dict[str, str], isolated: set[str]
) -> None:
    made = environment_for(model(**facts), FOLDER, given)

    assert {name for name in ISOLATED if name in made} == isolated
    assert all(made[name].startswith(str(FOLDER)) for name in isolated)
    assert needs_login(model(**facts), given) is not bool(isolated)


def test_a_key_of_the_configuration_is_the_only_one() -> None:
    given = {"ANTHROPIC_AUTH_TOKEN": "other", "CLAUDE_CODE_USE_VERTEX": "1"}

    made = environment_for(model(anthropic_api_key="key"), FOLDER, given)

    assert (made["ANTHROPIC_API_KEY"], made["ANTHROPIC_AUTH_TOKEN"]) == ("key", "")
    assert (made["CLAUDE_CODE_OAUTH_TOKEN"], made["CLAUDE_CODE_USE_VERTEX"]) == ("", "")
    assert "ANTHROPIC_BASE_URL" not in made


def test_an_endpoint_on_this_machine_needs_no_key() -> None:
    here = environment_for(model(anthropic_base_url="http://127.0.0.1:1"), FOLDER, {})
    there = environment_for(model(anthropic_base_url="https://llm.example"), FOLDER, {})

    assert here["ANTHROPIC_API_KEY"] == "none"
    assert "ANTHROPIC_API_KEY" not in there
