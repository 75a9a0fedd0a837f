"""What a turn says: which agent is spoken to, by whom, on which channel, and in which words."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

from plait.errors import ConfigError
from plait.gateway.port import TurnContext
from plait.gateway.settings import NO_APPLICATION
from plait.gateway.tokens import claim

_SALT = secrets.token_bytes(16)
"""Names of different processes cannot be compared, so that a leaked one tells nothing."""


def agent_of(turn: TurnContext, token: str) -> str:
    """Return the id of the agent that is spoken to.

    One without an identity of its own is known by the application that its token was given to.
    """
    if turn.activity.is_agentic_request():
        return turn.activity.get_agentic_instance_id() or ""
    return application_of(token)


def application_of(token: str) -> str:
    """Return the application that a token was given to; the zero id where there is no token."""
    return claim(token, "appid", "azp") if token.strip() else NO_APPLICATION


def caller_of(turn: TurnContext | None, token: str, application_name: str) -> str:
    """Return how an agent names itself to servers (`x-ms-agentid`)."""
    sender: Any = None if turn is None else getattr(turn.activity, "from_property", None)
    for name in ("agentic_app_blueprint_id", "agenticAppBlueprintId"):
        if found := getattr(sender, name, None):
            return str(found)
    return claim(token, "xms_par_app_azp", "appid", "azp") or application_name


def channels_of(turn: TurnContext) -> tuple[str, str]:
    """Return the channel of a turn and the channel inside it; what is not there is empty."""
    whole = turn.activity.channel_id or ""
    outer, _, inner = whole.partition(":")
    channel = getattr(whole, "channel", None) or outer
    sub_channel = getattr(whole, "sub_channel", None) or inner
    return str(channel).strip(), str(sub_channel).strip()


def owner_of(token: str) -> str:
    """Return a name for whom a token was given out, from which nothing can be learned.

    It stays the same when the token is renewed; one that says nothing of its owner is its own.
    """
    owner = [claim(token, name) for name in ("tid", "oid", "sub", "appid", "azp")]
    return _fingerprint(*(owner if any(owner[1:3]) else [token]))


def user_of(turn: TurnContext, token: str) -> str:
    """Return a name for whom a turn acts, on one channel, from which nothing can be learned.

    Two users never have the same one: the owner of the token and the writer of the message are
    both part of it.
    """
    sender: Any = getattr(turn.activity, "from_property", None)
    writer = (str(getattr(sender, name, None) or "") for name in ("id", "aad_object_id"))
    return _fingerprint(owner_of(token), *writer, agent_of(turn, token), *channels_of(turn))


def _fingerprint(*parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, key=_SALT, digest_size=16).hexdigest()


def words_of(turn: TurnContext | None) -> tuple[str, str, str]:
    """Return the ids of the conversation and of the message, and what the user wrote.

    Raises:
        ConfigError: One of them is missing.
    """
    if turn is None:
        raise ConfigError("turn_context is required")
    activity = turn.activity
    conversation = activity.conversation.id if activity.conversation else None
    found = {
        "Conversation ID": conversation,
        "Message ID": activity.id,
        "User message": activity.text,
    }
    for what, value in found.items():
        if not (value or "").strip():
            raise ConfigError(f"{what} is required but not found in turn context")
    return str(conversation), str(activity.id), str(activity.text)
