"""Every way to observe the run of a tool is noticed; without any, the run is not announced."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any, cast

import pytest
from langchain_core.callbacks import AsyncCallbackManager, BaseCallbackHandler, BaseCallbackManager
from langchain_core.globals import set_debug, set_verbose
from langchain_core.runnables.config import set_config_context
from langchain_core.tools import BaseTool, tool
from langchain_core.tracers import context as tracers
from langsmith import RunTree, tracing_context
from langsmith.utils import get_env_var

from plait.langchain.tools.tool import is_observed

HANDLER = BaseCallbackHandler()


@tool
def plain(text: str) -> str:
    """Return the text."""
    return text


@pytest.fixture(autouse=True)
def no_tracing(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2", "LANGSMITH_TRACING_V2"):
        monkeypatch.delenv(name, raising=False)
    _forget_environment()
    yield
    _forget_environment()


def _forget_environment() -> None:
    cast("Any", get_env_var).cache_clear()


@pytest.mark.parametrize(
    ("config", "observed"),
    [
        (None, False),
        ({}, False),
        ({"callbacks": None}, False),
        ({"callbacks": []}, False),
        ({"callbacks": AsyncCallbackManager([])}, False),
        ({"configurable": {"thread_id": "1"}, "tags": ["a"], "metadata": {"b": 1}}, False),
        ({"callbacks": [HANDLER]}, True),
        ({"callbacks": AsyncCallbackManager([HANDLER])}, True),
        ({"run_id": uuid.uuid4()}, True),
    ],
)
def test_the_config_or_that_of_the_run_around_it_names_listeners(
    config: Any, observed: bool
) -> None:
    assert is_observed(plain, config) is observed
    if config and "callbacks" in config:
        with set_config_context({"callbacks": config["callbacks"]}) as context:
            assert context.run(is_observed, plain, None) is observed


@pytest.mark.parametrize(
    "change", [{"callbacks": [HANDLER]}, {"verbose": True}, {"handle_tool_error": True}]
)
def test_the_tool_itself_has_listeners(change: dict[str, Any]) -> None:
    assert is_observed(plain.model_copy(update=change), None)


@contextmanager
def switched(switch: Callable[[bool], None]) -> Generator[None]:
    switch(True)
    try:
        yield
    finally:
        switch(False)


@contextmanager
def hooked() -> Generator[None]:
    """Register a hook with LangChain, and set its variable."""
    variable: ContextVar[BaseCallbackHandler | None] = ContextVar("listener", default=None)
    tracers.register_configure_hook(variable, inheritable=True)
    try:
        assert not is_observed(plain, None)
        token = variable.set(HANDLER)
        yield
        variable.reset(token)
    finally:
        tracers._configure_hooks.pop()


@contextmanager
def wrapped(owner: type, name: str) -> Generator[None]:
    """Instrument a method of LangChain."""
    original = getattr(owner, name)

    @wraps(original)
    def instrumented(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    setattr(owner, name, instrumented)
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextmanager
def patched(target: str, value: Any) -> Generator[None]:
    pytest.importorskip("langsmith._internal._context")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, value)
        yield


@contextmanager
def environment(name: str) -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(name, "true")
        _forget_environment()
        yield
    _forget_environment()


AROUND: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "debug": partial(switched, set_debug),
    "verbose": partial(switched, set_verbose),
    "collected runs": tracers.collect_runs,
    "a registered hook": hooked,
    "LANGSMITH_TRACING": partial(environment, "LANGSMITH_TRACING"),
    "LANGCHAIN_TRACING_V2": partial(environment, "LANGCHAIN_TRACING_V2"),
    "LangSmith, by a global setting": partial(
        patched, "langsmith._internal._context._GLOBAL_TRACING_ENABLED", True
    ),
    "LangSmith, by a run around it": lambda: tracing_context(parent=RunTree(name="outer")),
    "LangSmith, by context": lambda: tracing_context(enabled=True),
    "instrumented callbacks": partial(wrapped, BaseCallbackManager, "__init__"),
    "an instrumented ainvoke": partial(wrapped, BaseTool, "ainvoke"),
    "an instrumented run": partial(wrapped, BaseTool, "run"),
}


@pytest.mark.parametrize("name", AROUND)
def test_what_observes_every_run_is_noticed_while_it_is_there(name: str) -> None:
    with AROUND[name]():
        assert is_observed(plain, None)
    assert not is_observed(plain, None)


def test_langsmith_of_another_version_is_asked_itself() -> None:
    with (
        patched("plait.langchain.library_internals.KNOWS_TRACING", False),
        patched("langsmith._internal._context.get_current_run_tree", lambda: "a run around it"),
    ):
        assert is_observed(plain, None)
