"""What is read of a turn: agent, user, channel, words; and the headers made of it."""

from __future__ import annotations

import platform
from typing import Any

import pytest

from plait import ConfigError
from plait.gateway import GatewayRequestOptions
from plait.gateway.credentials import (
    NO_APPLICATION,
    GatewaySettings,
    agent_of,
    caller_of,
    channels_of,
    discovery_headers,
    history_headers,
    owner_key,
    tool_headers,
    user_agent,
    user_key,
)
from plait.gateway.history import history_of
from tests.unit.gateway.turns import Conversation, Sender, jwt, turn

LANGCHAIN = GatewayRequestOptions(orchestrator_name="LangChain")
AGENT_NAME = (
    f"Agent365SDK/2.0.0 ({platform.system()}; Python {platform.python_version()}; LangChain)"
)


@pytest.mark.parametrize(
    ("agent", "token", "expected"),
    [
        ("instance", jwt(appid="app"), "instance"),
        ("", jwt(appid="app"), ""),
        (None, jwt(appid="app", azp="other"), "app"),
        (None, jwt(azp="other"), "other"),
        (None, jwt(), ""),
        (None, "", NO_APPLICATION),
        (None, "opaque", ""),
    ],
)
def test_an_agent_is_known_by_its_instance_or_its_token(
    agent: str | None, token: str, expected: str
) -> None:
    assert agent_of(turn(agent=agent), token) == expected


def test_an_agent_names_itself_by_the_first_thing_that_is_known() -> None:
    token = jwt(xms_par_app_azp="parent", appid="app", azp="azp")

    assert caller_of(turn(from_property=Sender(agentic_app_blueprint_id="bp")), token, "n") == "bp"
    assert caller_of(turn(), token, "name") == "parent"
    assert caller_of(turn(), jwt(appid="app", azp="azp"), "name") == "app"
    assert caller_of(turn(), jwt(azp="azp"), "name") == "azp"
    assert caller_of(None, "", "name") == "name"


@pytest.mark.parametrize(
    ("channel", "expected"),
    [
        ("msteams", ("msteams", "")),
        ("msteams:email", ("msteams", "email")),
        (None, ("", "")),
    ],
)
def test_a_channel_may_have_another_inside(channel: str | None, expected: tuple[str, str]) -> None:
    assert channels_of(turn(channel_id=channel)) == expected


def test_a_renewed_token_is_of_the_same_owner_and_another_owner_is_another() -> None:
    ann = jwt(oid="ann", tid="t", nonce=1)

    assert owner_key(ann) == owner_key(jwt(oid="ann", tid="t", nonce=2))
    assert owner_key(ann) != owner_key(jwt(oid="bob", tid="t"))
    assert owner_key(ann) != owner_key(jwt(oid="ann", tid="other tenant"))
    assert owner_key("opaque 1") != owner_key("opaque 2")
    assert owner_key(jwt(appid="app", nonce=1)) != owner_key(jwt(appid="app", nonce=2))


@pytest.mark.parametrize(
    "other",
    [
        {"from_property": Sender(id="user-2")},
        {"from_property": Sender(aad_object_id="x")},
        {"from_property": None},
        {"agent": "another"},
        {"channel_id": "msteams"},
    ],
)
def test_users_channels_and_agents_are_kept_apart(other: dict[str, Any]) -> None:
    token = jwt(oid="ann")

    assert user_key(turn(), token) == user_key(turn(id="message-2", text="other"), token)
    assert user_key(turn(), token) != user_key(turn(**other), token)


@pytest.mark.parametrize("between", ["", "\0", ":", "1:"])
def test_no_id_can_pretend_to_be_two(between: str) -> None:
    token = jwt(oid="ann")
    one = turn(from_property=Sender(id=f"a{between}b", aad_object_id="c"))
    other = turn(from_property=Sender(id="a", aad_object_id=f"b{between}c"))

    assert user_key(one, token) != user_key(other, token)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"conversation": None}, "Conversation ID is required but not found in turn context"),
        (
            {"conversation": Conversation(" ")},
            "Conversation ID is required but not found in turn context",
        ),
        ({"id": None}, "Message ID is required but not found in turn context"),
        ({"id": ""}, "Message ID is required but not found in turn context"),
        ({"text": None}, "User message is required but not found in turn context"),
        ({"text": " \n"}, "User message is required but not found in turn context"),
    ],
)
def test_a_turn_that_does_not_say_what_it_must_is_an_error(
    changes: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        history_of(turn(**changes), [])

    assert caught.value.message == text


def test_without_a_framework_the_user_agent_names_none() -> None:
    assert user_agent(GatewayRequestOptions()) == AGENT_NAME.replace("; LangChain", "")
    assert user_agent(LANGCHAIN) == AGENT_NAME


def test_the_first_version_sends_what_it_always_sent() -> None:
    settings = GatewaySettings(api_version=1)

    assert discovery_headers(settings, LANGCHAIN, token="abc", turn=turn()) == {
        "Authorization": "Bearer abc",
        "User-Agent": AGENT_NAME,
    }
    assert tool_headers(settings, LANGCHAIN, token="abc", turn=turn()) == {
        "Authorization": "Bearer abc",
        "x-ms-channel-id": "msteams",
        "x-ms-subchannel-id": "email",
        "User-Agent": AGENT_NAME,
    }


def test_the_second_version_names_the_agent_and_the_turn() -> None:
    token = jwt(appid="app")
    headers = discovery_headers(GatewaySettings(), LANGCHAIN, token=token, turn=turn())

    assert headers == {
        "Authorization": f"Bearer {token}",
        "x-ms-channel-id": "msteams",
        "x-ms-subchannel-id": "email",
        "User-Agent": AGENT_NAME,
        "x-ms-agentid": "app",
        "x-ms-correlation-id": "message-1",
    }


def test_what_is_not_known_is_not_sent() -> None:
    headers = tool_headers(
        GatewaySettings(),
        LANGCHAIN,
        turn=turn(channel_id=None),
        environ={"AGENT365_APPLICATION_NAME": "mine"},
    )

    assert headers == {"User-Agent": AGENT_NAME, "x-ms-agentid": "mine"}


def test_chat_history_goes_without_a_token() -> None:
    assert history_headers(LANGCHAIN, turn(channel_id="slack")) == {
        "x-ms-channel-id": "slack",
        "User-Agent": AGENT_NAME,
        "Content-Type": "application/json",
    }


def test_what_no_header_may_hold_is_written_as_in_a_url() -> None:
    odd = turn(id="grüße\r\nX-Evil: 1", channel_id="teams ☂:50%")

    headers = discovery_headers(GatewaySettings(), LANGCHAIN, token="abc", turn=odd)

    assert headers["x-ms-correlation-id"] == "gr%C3%BC%C3%9Fe%0D%0AX-Evil: 1"
    assert headers["x-ms-channel-id"] == "teams %E2%98%82"
    assert headers["x-ms-subchannel-id"] == "50%"
