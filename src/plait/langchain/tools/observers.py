"""Detects whether the run of a tool is observed: by callbacks, tracers or instrumentation.

LangChain's own preparation of a run costs more than a call on a local server, and a run that is
not observed does not need it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from langchain_core import globals as langchain_globals
from langchain_core.callbacks import base as callbacks_base
from langchain_core.callbacks import manager as callbacks_manager
from langchain_core.callbacks.manager import AsyncCallbackManagerForToolRun
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool
from langchain_core.tools import base as tools_base
from langchain_core.tracers.context import (
    _configure_hooks as configure_hooks,  # pyright: ignore[reportPrivateUsage]
)
from langchain_core.tracers.context import tracing_v2_callback_var
from langchain_core.utils.env import env_var_is_set
from langsmith.utils import get_env_var, tracing_is_enabled  # pyright: ignore[reportUnknownVariableType]

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


RUN_OPTIONS = frozenset(
    {"callbacks", "tags", "metadata", "run_name", "run_id", "config", "tool_call_id"}
)
"""The options that `BaseTool.ainvoke` passes to `BaseTool.arun`."""


async def announced_run(
    tool: BaseTool, arguments: dict[str, Any], options: Mapping[str, Any]
) -> AsyncCallbackManagerForToolRun:
    """Announce the run of a tool to its observers, as `BaseTool.arun` does with these options."""
    manager = callbacks_manager.AsyncCallbackManager.configure(
        options["callbacks"],
        tool.callbacks,
        tool.verbose,
        options["tags"],
        tool.tags,
        options["metadata"],
        tool.metadata,
    )
    shown = tool._filter_injected_args(arguments)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return await manager.on_tool_start(
        {"name": tool.name, "description": tool.description},
        str(shown),
        color="green",
        name=options["run_name"],
        run_id=options["run_id"],
        inputs=shown,
        tool_call_id=options["tool_call_id"],
    )


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
        or _traces_to_langsmith()
        or not is_original()
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


langsmith_context: Any = import_module("langsmith._internal._context")


def _traces_to_langsmith() -> bool:
    """Do what `tracing_is_enabled` does, which is slow where only the environment decides."""
    try:
        is_set = (
            langsmith_context._TRACING_ENABLED.get() is not None  # noqa: SLF001
            or langsmith_context._PARENT_RUN_TREE_REF.get() is not None  # noqa: SLF001
            or langsmith_context._GLOBAL_TRACING_ENABLED is not None  # noqa: SLF001
        )
    except AttributeError:  # another version of langsmith
        is_set = True
    if is_set:
        return bool(tracing_is_enabled())
    return get_env_var("TRACING_V2", default=get_env_var("TRACING", default="")) == "true"


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


def is_original() -> bool:
    """Return whether no instrumentation has replaced what LangChain runs tools with."""
    return _functions() == _originals
