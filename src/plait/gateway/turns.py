"""Reads agent, user and channel from a turn."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

from plait.gateway.port import TurnContext
from plait.gateway.settings import NO_APPLICATION
from plait.gateway.tokens import claim

_SALT = secrets.token_bytes(16)
"""Makes keys differ between processes, so that a leaked one is useless."""


def agent_of(turn: TurnContext, token: str) -> str:
    """Return the id of the agent that is addressed.

    An agent without an identity of its own is identified by the application of its token.
    """
    if turn.activity.is_agentic_request():
        return turn.activity.get_agentic_instance_id() or ""
    return application_of(token)


def application_of(token: str) -> str:
    """Return the application of a token; the zero id if there is no token."""
    return claim(token, "appid", "azp") if token.strip() else NO_APPLICATION


def caller_of(turn: TurnContext | None, token: str, application_name: str) -> str:
    """Return the id that an agent sends to servers (`x-ms-agentid`)."""
    sender: Any = None if turn is None else getattr(turn.activity, "from_property", None)
    for name in ("agentic_app_blueprint_id", "agenticAppBlueprintId"):
        if blueprint := getattr(sender, name, None):
            return str(blueprint)
    return claim(token, "xms_par_app_azp", "appid", "azp") or application_name


def channels_of(turn: TurnContext) -> tuple[str, str]:
    """Return channel and sub-channel of a turn; a missing one is empty."""
    whole = turn.activity.channel_id or ""
    outer, _, inner = whole.partition(":")
    channel = getattr(whole, "channel", None) or outer
    sub_channel = getattr(whole, "sub_channel", None) or inner
    return str(channel).strip(), str(sub_channel).strip()


def owner_key(token: str) -> str:
    """Return a hash that identifies the owner of a token.

    It stays the same when the token is renewed; a token that names no owner is hashed itself.
    """
    owner = [claim(token, name) for name in ("tid", "oid", "sub", "appid", "azp")]
    return _fingerprint(*(owner if any(owner[1:3]) else [token]))


def token_key(token: str) -> str:
    """Return a hash that identifies a token."""
    return _fingerprint(token)


def user_key(turn: TurnContext, token: str) -> str:
    """Return a hash that identifies the user of a turn on its channel.

    It differs between users: the owner of the token and the sender of the message are part of it.
    """
    sender: Any = getattr(turn.activity, "from_property", None)
    ids = (str(getattr(sender, name, None) or "") for name in ("id", "aad_object_id"))
    return _fingerprint(owner_key(token), *ids, agent_of(turn, token), *channels_of(turn))


def _fingerprint(*parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, key=_SALT, digest_size=16).hexdigest()
