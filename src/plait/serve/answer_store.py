"""Stores the answers with which the next process begins, before it has imported the server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from plait._support import mcp_types as types
from plait._support.files import write_atomically
from plait._support.threads import in_thread
from plait.client.protocol.peer import RequestError
from plait.serve.first_answers import answers_path, answers_text, declaration, fingerprint
from plait.serve.upstream import METHODS

if TYPE_CHECKING:
    from plait.serve.first_answers import Conversation
    from plait.serve.session import ClientSession

logger = logging.getLogger("plait.serve")

STORE_SECONDS: Final = 1.0
"""How often the answers are looked at, and stored if they have changed."""
MAX_CLIENTS: Final = 16
"""For how many kinds of clients answers are kept; the newest are."""


@dataclass(frozen=True, slots=True)
class Deciding:
    """The files that decide about the answers, as they were before they were read."""

    files: Sequence[str]
    fingerprint: str
    secrets: Sequence[str]
    """The values that must not be stored."""


class AnswerStore:
    """The answers of a session to what every client asks first."""

    def __init__(self, session: ClientSession, begun: Conversation, deciding: Deciding) -> None:
        self._session = session
        self._begun = begun
        self._deciding = deciding
        self._stored = begun.answers
        self._changes: int | None = None
        """How often the lists had changed when they were stored."""

    async def run(self) -> None:
        """Store the answers whenever they have changed, until cancelled.

        Waiting for the end is not enough: some programs kill what they have started.
        """
        with suppress(RequestError):
            await self._announce_differences()
        while True:
            await asyncio.sleep(STORE_SECONDS)
            await self.store()

    async def _announce_differences(self) -> None:
        """Announce the lists that are not as they were sent at the beginning."""
        answers = await self._answers() if self._begun.sent else {}
        for kind, method in METHODS.items():
            if method in self._begun.sent and self._begun.sent[method] != answers.get(method):
                self._session.list_changed(kind)

    async def store(self) -> None:
        """Store the answers if they have changed; failures are logged, not raised."""
        opening = self._session.opening
        if opening is None:
            return
        changes = (await self._session.upstream()).changes
        if changes == self._changes:
            return
        try:
            answers = await self._answers()
            if answers != self._stored:
                declared = declaration(*opening)
                await in_thread(
                    self._write, answers_path(self._begun.folder, str(declared)), answers
                )
        except (OSError, ValueError, RequestError) as error:
            logger.debug("the first answers cannot be stored: %s", error)
        else:
            self._stored, self._changes = answers, changes

    async def _answers(self) -> dict[str, bytes]:
        """Answer what every client asks first, as far as no server must be waited for."""
        opening, upstream = self._session.opening, await self._session.upstream()
        if opening is None:
            return {}
        method, params = opening
        common: dict[str, Any] = {}
        requests = {"initialize": params, "ping": common}
        if method != "initialize":
            keys = types.PROTOCOL_VERSION_META_KEY, types.CLIENT_CAPABILITIES_META_KEY
            common = {"_meta": {key: params["_meta"][key] for key in keys}}
            requests = {"server/discover": common}
        listed = (method for kind, method in METHODS.items() if not upstream.unlisted(kind))
        requests |= dict.fromkeys(listed, common)
        return {
            name: to_json(await self._session.answer(0, name, fields), inf_nan_mode="null")
            for name, fields in requests.items()
        }

    def _write(self, path: Path, answers: Mapping[str, bytes]) -> None:
        deciding = self._deciding
        if fingerprint(deciding.files) != deciding.fingerprint:
            return  # they are the answers of another configuration than the next process reads
        text = answers_text(deciding.files, deciding.fingerprint, answers)
        if any(secret in text for secret in deciding.secrets):
            logger.debug("the first answers hold a secret, and are not stored")
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path, text, mode=0o600)
        others = sorted(path.parent.glob("*.txt"), key=lambda file: file.stat().st_mtime)
        for other in others[:-MAX_CLIENTS]:
            other.unlink(missing_ok=True)
