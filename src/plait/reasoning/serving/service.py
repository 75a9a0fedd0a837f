"""The parts of a running server: the store, the backend, the change notifications and the log."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from plait._support.redact import Redactor
from plait.errors import BackendError
from plait.reasoning.backends.choose import (
    AvailableModels,
    BackendChoice,
    choose,
    completer_for,
    detect_models,
)
from plait.reasoning.backends.port import Completer, HostCompleter
from plait.reasoning.backends.settings import (
    DEFAULT_DATABASE,
    LogFormat,
    LogLevel,
    ReasoningSettings,
)
from plait.reasoning.reasoner import Reasoner
from plait.reasoning.serving.changes import ChangeBus
from plait.reasoning.storage.database import Database, database_from_text
from plait.reasoning.storage.sql import SqlStorage

logger = logging.getLogger(__name__)

MAX_OPEN_SECONDS = 5.0
"""How long the start of the server waits for its backend; clients give up after some ten."""


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
        name, detail = self.choice.backend, self.choice.reason
        completer = self.reasoner.completer
        if name != "sampling":
            detail = f"{completer.describe()}; {detail}"
        # The name of a completer says more for one: which service it is.
        name = completer.name if name == "openai" else name
        return f"plait reasoning: backend {name} ({detail}), database {self.database}"


def database_for(option: str | None, settings: ReasoningSettings) -> Database:
    """Return the database of the option, of the settings, or the default one."""
    text = option or settings.database or str(DEFAULT_DATABASE.expanduser())
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
            completer = completer_for(choice, settings) if has_model else HostCompleter()
        try:
            await _open_backend(completer)
            yield await _service_with(store, settings, completer, choice, available)
        finally:
            await completer.aclose()
    finally:
        await store.aclose()


async def _open_backend(completer: Completer) -> None:
    """Open a backend; one that cannot be reached now is tried again with the first prompt.

    A client that starts the server waits for it, so a missing service must not hold it up.
    """
    try:
        async with asyncio.timeout(MAX_OPEN_SECONDS):
            await completer.open()
    except (TimeoutError, BackendError) as error:
        if isinstance(error, BackendError) and not error.retryable:
            raise
        problem = str(error) or f"no answer in {MAX_OPEN_SECONDS:g} s"
        logger.warning("%s is tried again when it is needed: %s", completer.name, problem)


@asynccontextmanager
async def open_sibling(service: Service, database: Database) -> AsyncGenerator[Service]:
    """Open a service with the same backend, and a store of its own."""
    settings, completer = service.settings, service.reasoner.completer
    store = SqlStorage(database, connections=settings.database_connections)
    try:
        await store.open()
        yield await _service_with(store, settings, completer, service.choice, service.available)
    finally:
        await store.aclose()


async def _service_with(
    store: SqlStorage,
    settings: ReasoningSettings,
    completer: Completer,
    choice: BackendChoice,
    available: AvailableModels,
) -> Service:
    changes = ChangeBus(store)
    reasoner = Reasoner(
        store,
        completer,
        limits=settings.got,
        pipes=settings.pipes,
        include_snapshots=settings.include_snapshots,
        on_change=changes.session_changed,
    )
    return Service(
        settings=settings,
        database=store.database,
        choice=choice,
        available=available,
        store=store,
        reasoner=reasoner,
        changes=changes,
        state_key=await store.server_key("request-state"),
    )


def end_process_within(seconds: float) -> None:
    """End this process after a time, even if a thread of it never ends."""
    timer = threading.Timer(seconds, os._exit, (0,))
    timer.daemon = True
    timer.start()


class _Formatter(logging.Formatter):
    """Writes records without secrets, as lines or as JSON."""

    def __init__(self, form: LogFormat) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")
        self._is_json = form == "json"
        self._redact = Redactor()

    def format(self, record: logging.LogRecord) -> str:
        if not self._is_json:
            return self._redact(super().format(record))
        facts: dict[str, object] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            facts["exception"] = self.formatException(record.exc_info)
        for name, value in facts.items():
            facts[name] = self._redact(value) if isinstance(value, str) else value
        return json.dumps(facts, ensure_ascii=False)


def log_to_stderr(level: LogLevel, form: LogFormat) -> None:
    """Write the log of the server to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(form))
    logger = logging.getLogger("plait.reasoning")
    logger.handlers[:] = [handler]
    # The levels of the original server; Python has no name for one below debug.
    logger.setLevel("DEBUG" if level == "trace" else level.upper())


def announce(text: str, form: LogFormat) -> None:
    """Write a line to standard error at every log level, in the format of the log."""
    if form == "json":
        facts = {"name": "plait.reasoning", "levelname": "INFO", "msg": text}
        text = _Formatter(form).format(logging.makeLogRecord(facts))
    print(text, file=sys.stderr, flush=True)  # noqa: T201
