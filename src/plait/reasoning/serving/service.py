"""The parts of a running server: the store, the backend and the change notifications."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from plait.reasoning.backends.choose import (
    AvailableModels,
    BackendChoice,
    choose,
    completer_for,
    detect_models,
)
from plait.reasoning.backends.port import Completer, HostCompleter
from plait.reasoning.backends.settings import ReasoningSettings
from plait.reasoning.prompts import PROMPTS
from plait.reasoning.reasoner import Reasoner
from plait.reasoning.serving.changes import ChangeBus
from plait.reasoning.storage.engine import Database, database_from_text
from plait.reasoning.storage.sql import SqlStorage

DEFAULT_DATABASE = "~/.local/share/plait/reasoning.db"
"""Where sessions are stored by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """An open reasoner, and how its backend was chosen."""

    settings: ReasoningSettings
    database: Database
    choice: BackendChoice
    available: AvailableModels
    store: SqlStorage
    reasoner: Reasoner
    changes: ChangeBus
    state_key: bytes
    """Signs the state that a client carries from one round of a call to the next."""

    @property
    def may_sample(self) -> bool:
        """Whether a client that offers sampling is used."""
        return self.choice.backend in ("host", "sampling")

    def start_line(self) -> str:
        """Return one line that names the backend and the database."""
        detail = self.choice.reason
        if self.choice.backend != "sampling":
            detail = f"{self.reasoner.completer.describe()}; {detail}"
        backend = f"{self.choice.backend} ({detail})"
        return f"plait reasoning: backend {backend}, database {self.database}"


def database_for(option: str | None, settings: ReasoningSettings) -> Database:
    """Return the database of the option, of the settings, or the default one."""
    text = option or settings.database or str(Path(DEFAULT_DATABASE).expanduser())
    return database_from_text(text)


@asynccontextmanager
async def open_service(
    settings: ReasoningSettings, *, database: Database, completer: Completer | None = None
) -> AsyncGenerator[Service]:
    """Open the store and the backend, and close both at the end.

    `completer` replaces the one that the settings would choose.
    """
    store = SqlStorage(database, connections=settings.database_connections)
    try:
        await store.open()
        available = AvailableModels()
        choice = BackendChoice(backend="scripted", reason="it was handed in")
        if completer is None:
            available = await detect_models(settings)
            choice = choose(settings, available)
            # Sampling has no client yet; each request has its own.
            has_model = choice.backend != "sampling"
            completer = (
                completer_for(choice, settings, prompts=PROMPTS) if has_model else HostCompleter()
            )
        await completer.open()
        try:
            changes = ChangeBus(store)
            reasoner = Reasoner(
                store,
                completer,
                limits=settings.got,
                pipes=settings.pipes,
                on_change=changes.session_changed,
            )
            yield Service(
                settings=settings,
                database=database,
                choice=choice,
                available=available,
                store=store,
                reasoner=reasoner,
                changes=changes,
                state_key=await store.server_key("request-state"),
            )
        finally:
            await completer.aclose()
    finally:
        await store.aclose()
