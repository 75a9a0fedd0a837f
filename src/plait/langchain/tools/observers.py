"""Detects whether the run of a tool is observed: by callbacks, tracers or instrumentation.

LangChain's own preparation of a run costs more than a call on a local server, and a run that is
not observed does not need it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core import globals as langchain_globals
from langchain_core.callbacks import base as callbacks_base
from langchain_core.callbacks import manager as callbacks_manager
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool
from langchain_core.tools import base as tools_base
from langchain_core.tracers.context import (
    _configure_hooks as configure_hooks,  # pyright: ignore[reportPrivateUsage]
)
from langchain_core.tracers.context import tracing_v2_callback_var
from langchain_core.utils.env import env_var_is_set
from langsmith.utils import tracing_is_enabled  # pyright: ignore[reportUnknownVariableType]

from plait.langchain.tools.graph_run import CALL_OPTIONS


def options_of_quiet_run(
    tool: BaseTool, config: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """Return the `configurable` options of a run that is not observed; `None` for others."""
    if is_observed(tool, config):
        return None
    if config is not None and not CALL_OPTIONS.isdisjoint(config):
        return None  # LangChain moves them to `configurable`
    configurable = None if config is None else config.get("configurable")
    if configurable is None and (outer := var_child_runnable_config.get()) is not None:
        configurable = outer.get("configurable")
    return configurable or {}


def is_observed(tool: BaseTool, config: Mapping[str, Any] | None) -> bool:
    """Return whether the run of a tool has to be announced to an observer."""
    if config is not None and (_has_handlers(config.get("callbacks")) or config.get("run_id")):
        return True
    outer = var_child_runnable_config.get()
    if outer is not None and _has_handlers(outer.get("callbacks")):
        return True
    return (
        bool(tool.callbacks or tool.verbose or tool.handle_tool_error)
        or langchain_globals._verbose  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        or langchain_globals._debug  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        or tracing_v2_callback_var.get() is not None
        or _is_hooked()
        or bool(tracing_is_enabled())
        or not _is_original()
    )


def _has_handlers(callbacks: Any) -> bool:
    if not callbacks:
        return False
    return isinstance(callbacks, list) or bool(callbacks.handlers)


def _is_hooked() -> bool:
    for variable, _, _, name in configure_hooks:
        if variable.get() is not None or (name is not None and env_var_is_set(name)):
            return True
    return False


def _functions() -> tuple[Callable[..., Any], ...]:
    """Return what instrumentation replaces to observe runs."""
    return (
        callbacks_base.BaseCallbackManager.__init__,
        callbacks_manager._configure,  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        BaseTool.ainvoke,
        BaseTool.arun,
        BaseTool.invoke,
        BaseTool.run,
    )


def _written_by_langchain(function: Callable[..., Any]) -> bool:
    files = {module.__file__ for module in (callbacks_base, callbacks_manager, tools_base)}
    code = getattr(function, "__code__", None)
    return not hasattr(function, "__wrapped__") and getattr(code, "co_filename", None) in files


_originals = tuple(function for function in _functions() if _written_by_langchain(function))


def _is_original() -> bool:
    return _functions() == _originals
