"""What a server needs while it runs: the store, the backend, and who listens for changes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from plait.reasoning.backends.build import completer_for
from plait.reasoning.backends.choose import AvailableModels, BackendChoice, choose, detect_models
from plait.reasoning.backends.client_model import HostCompleter
from plait.reasoning.backends.port import Completer
from plait.reasoning.backends.settings import ReasoningSettings
from plait.reasoning.prompts import PROMPTS
from plait.reasoning.reasoner import Reasoner
from plait.reasoning.serving.changes import ChangeBus
from plait.reasoning.storage.engine import Database, database_from_text
from plait.reasoning.storage.sql import SqlStorage

DEFAULT_DATABASE = "~/.local/share/plait/reasoning.db"
"""Where sessions are kept when nothing else is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A reasoner that is open, and how its backend was chosen."""

    settings: ReasoningSettings
    database: Database
    choice: BackendChoice
    around: AvailableModels
    store: SqlStorage
    reasoner: Reasoner
    changes: ChangeBus
    state_key: bytes
    """Seals what a client carries from one round of a call to the next."""

    @property
    def may_sample(self) -> bool:
        """Say whether a client that offers sampling is asked."""
        return self.choice.backend in ("host", "local", "sampling")

    def start_line(self) -> str:
        """Say in one line what answers, and where sessions are kept."""
        completer = self.reasoner.completer
        who = f"{self.choice.backend} ({completer.describe()}; {self.choice.reason})"
        if self.choice.backend == "sampling":
            who = f"sampling ({self.choice.reason})"
        return f"plait reasoning: backend {who}, database {self.database}"


def database_for(given: str | None, settings: ReasoningSettings) -> Database:
    """Choose the database: the one that is given, or that of the settings, or the usual one."""
    text = given or settings.database or str(Path(DEFAULT_DATABASE).expanduser())
    return database_from_text(text)


@asynccontextmanager
async def open_service(
    settings: ReasoningSettings, *, database: Database, completer: Completer | None = None
) -> AsyncGenerator[Service]:
    """Open the store and the backend, and close both at the end.

    `completer` is used instead of what the settings would choose.
    """
    store = SqlStorage(database, connections=settings.database_connections)
    try:
        await store.open()
        around = AvailableModels() if completer else await detect_models(settings)
        choice = (
            BackendChoice(backend="scripted", reason="it was handed in")
            if completer
            else choose(settings, around)
        )
        chosen = completer or _completer(choice, settings)
        await chosen.open()
        try:
            changes = ChangeBus(store)
            reasoner = Reasoner(
                store,
                chosen,
                limits=settings.got,
                pipes=settings.pipes,
                changed=changes.session_changed,
            )
            yield Service(
                settings=settings,
                database=database,
                choice=choice,
                around=around,
                store=store,
                reasoner=reasoner,
                changes=changes,
                state_key=await store.server_key("request-state"),
            )
        finally:
            await chosen.aclose()
    finally:
        await store.aclose()


def _completer(choice: BackendChoice, settings: ReasoningSettings) -> Completer:
    if choice.backend == "sampling":
        # There is no client yet; each request brings its own.
        return HostCompleter()
    return completer_for(choice, settings, prompts=PROMPTS)
