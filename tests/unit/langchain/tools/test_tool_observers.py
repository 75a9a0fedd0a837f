"""Every way to observe the run of a tool is noticed; without any, the run is not announced."""

from __future__ import annotations

import uuid
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import wraps
from typing import Any, cast

import pytest
from langchain_core.callbacks import AsyncCallbackManager, BaseCallbackHandler, BaseCallbackManager
from langchain_core.globals import set_debug, set_verbose
from langchain_core.runnables.config import RunnableConfig, set_config_context
from langchain_core.tools import BaseTool, tool
from langchain_core.tracers import context as tracers
from langsmith import RunTree, tracing_context
from langsmith.utils import get_env_var

from plait.langchain.tools.tool import is_observed

HANDLER = BaseCallbackHandler()


@pytest.fixture
def plain() -> BaseTool:
    @tool
    def echo(text: str) -> str:
        """Return the text."""
        return text

    return echo


def _forget_environment() -> None:
    cast("Any", get_env_var).cache_clear()


@pytest.fixture(autouse=True)
def no_tracing(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2", "LANGSMITH_TRACING_V2"):
        monkeypatch.delenv(name, raising=False)
    _forget_environment()
    yield
    _forget_environment()


@pytest.mark.parametrize(
    "config",
    [
        None,
        {},
        {"callbacks": None},
        {"callbacks": []},
        {"callbacks": AsyncCallbackManager([])},
        {"configurable": {"thread_id": "1"}, "tags": ["a"], "metadata": {"b": 1}},
    ],
)
def test_a_run_without_listeners_is_not_observed(plain: BaseTool, config: Any) -> None:
    assert not is_observed(plain, config)


@pytest.mark.parametrize(
    "config",
    [
        {"callbacks": [HANDLER]},
        {"callbacks": AsyncCallbackManager([HANDLER])},
        {"run_id": uuid.uuid4()},
    ],
)
def test_the_config_names_listeners(plain: BaseTool, config: RunnableConfig) -> None:
    assert is_observed(plain, config)


def test_the_run_around_it_has_listeners(plain: BaseTool) -> None:
    with set_config_context({"callbacks": [HANDLER]}) as context:
        assert context.run(is_observed, plain, None)
    with set_config_context({"callbacks": []}) as context:
        assert not context.run(is_observed, plain, None)


@pytest.mark.parametrize(
    "change", [{"callbacks": [HANDLER]}, {"verbose": True}, {"handle_tool_error": True}]
)
def test_the_tool_itself_has_listeners(plain: BaseTool, change: dict[str, Any]) -> None:
    assert is_observed(plain.model_copy(update=change), None)


@pytest.mark.parametrize("switch", [set_debug, set_verbose])
def test_a_global_switch(plain: BaseTool, switch: Any) -> None:
    switch(True)
    try:
        assert is_observed(plain, None)
    finally:
        switch(False)


def test_collected_runs(plain: BaseTool) -> None:
    with tracers.collect_runs():
        assert is_observed(plain, None)


def test_a_registered_hook(plain: BaseTool, monkeypatch: pytest.MonkeyPatch) -> None:
    variable: ContextVar[BaseCallbackHandler | None] = ContextVar("listener", default=None)
    monkeypatch.setattr(tracers, "_configure_hooks", tracers._configure_hooks)
    tracers.register_configure_hook(variable, inheritable=True)
    try:
        assert not is_observed(plain, None)
        token = variable.set(HANDLER)
        assert is_observed(plain, None)
        variable.reset(token)
    finally:
        tracers._configure_hooks.pop()


@pytest.mark.parametrize("name", ["LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"])
def test_langsmith_by_environment(
    plain: BaseTool, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "true")
    _forget_environment()
    assert is_observed(plain, None)


def test_langsmith_of_another_version_is_asked_itself(
    plain: BaseTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("langsmith._internal._context")
    monkeypatch.setattr("plait.langchain.library_internals.KNOWS_TRACING", False)
    monkeypatch.setattr(
        "langsmith._internal._context.get_current_run_tree", lambda: "a run around this one"
    )
    assert is_observed(plain, None)


def test_langsmith_by_a_global_setting(plain: BaseTool, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("langsmith._internal._context")
    monkeypatch.setattr("langsmith._internal._context._GLOBAL_TRACING_ENABLED", True)
    assert is_observed(plain, None)


def test_langsmith_by_a_run_around_it(plain: BaseTool) -> None:
    with tracing_context(parent=RunTree(name="outer")):
        assert is_observed(plain, None)
    assert not is_observed(plain, None)


def test_langsmith_by_context(plain: BaseTool) -> None:
    with tracing_context(enabled=True):
        assert is_observed(plain, None)


@contextmanager
def _wrapped(owner: type, name: str) -> Generator[None]:
    original = getattr(owner, name)

    @wraps(original)
    def instrumented(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    setattr(owner, name, instrumented)
    try:
        yield
    finally:
        setattr(owner, name, original)


@pytest.mark.parametrize(
    ("owner", "name"),
    [(BaseCallbackManager, "__init__"), (BaseTool, "ainvoke"), (BaseTool, "run")],
)
def test_instrumentation_that_wraps_langchain(plain: BaseTool, owner: type, name: str) -> None:
    with _wrapped(owner, name):
        assert is_observed(plain, None)
    with nullcontext():
        assert not is_observed(plain, None)
