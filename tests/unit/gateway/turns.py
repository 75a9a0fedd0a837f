"""Turns of the shape that the gateway needs, without a hosting library."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from plait.gateway import TurnContext

FAR_AWAY = 4_102_444_800
"""When tokens end; the same in every process, because tests are named after their tokens."""


def jwt(**claims: Any) -> str:
    def part(value: Mapping[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part({'exp': FAR_AWAY, **claims})}.s"


@dataclass(frozen=True)
class Conversation:
    id: str | None = "conversation-1"


@dataclass(frozen=True)
class Sender:
    id: str = "user-1"
    aad_object_id: str | None = None
    agentic_app_blueprint_id: str | None = None


@dataclass(frozen=True)
class Activity:
    id: str | None = "message-1"
    text: str | None = "What is new?"
    conversation: Conversation | None = field(default_factory=Conversation)
    channel_id: str | None = "msteams:email"
    from_property: Sender | None = field(default_factory=Sender)
    agent: str | None = None

    def is_agentic_request(self) -> bool:
        return self.agent is not None

    def get_agentic_instance_id(self) -> str | None:
        return self.agent


@dataclass(frozen=True)
class Turn:
    activity: Activity = field(default_factory=Activity)


def turn(**changes: Any) -> TurnContext:
    return Turn(Activity(**changes))
