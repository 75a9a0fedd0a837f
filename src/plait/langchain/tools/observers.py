"""Detects whether the run of a tool is observed: by callbacks, tracers or instrumentation.

LangChain's own preparation of a run costs more than a call on a local server, and a run that is
not observed does not need it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import manager as callbacks_manager
from langchain_core.callbacks.manager import AsyncCallbackManagerForToolRun
from langchain_core.globals import get_debug, get_verbose
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, var_child_runnable_config
from langchain_core.tools import BaseTool
from langchain_core.tools.base import FILTERED_ARGS
from langchain_core.tracers.context import tracing_v2_callback_var

from plait.langchain.library_internals import (
    InvocationTool,
    has_hooks,
    is_original,
    traces_to_langsmith,
)
from plait.langchain.tools.graph_run import CALL_OPTIONS


def config_of_quiet_run(tool: BaseTool, config: RunnableConfig | None) -> RunnableConfig | None:
    """Return the config of a run that is not observed; `None` for others."""
    if is_observed(tool, config) or tool.response_format == "content":
        return None
    outer = var_child_runnable_config.get()
    if not config:
        return outer or _NO_CONFIG
    if not CALL_OPTIONS.isdisjoint(config):
        return None  # LangChain moves them to `configurable`
    return config if outer is None else ensure_config(config)


_NO_CONFIG: RunnableConfig = {}

RUN_OPTIONS = frozenset(
    {"callbacks", "tags", "metadata", "run_name", "run_id", "config", "tool_call_id"}
)
"""The options that `BaseTool.ainvoke` passes to `BaseTool.arun`."""


async def announced_run(
    tool: InvocationTool, arguments: dict[str, Any], options: Mapping[str, Any]
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
    hidden = tool.injected.union(FILTERED_ARGS)
    shown = {name: value for name, value in arguments.items() if name not in hidden}
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
        or get_verbose()
        or get_debug()
        or tracing_v2_callback_var.get() is not None
        or has_hooks()
        or traces_to_langsmith()
        or not is_original()
    )


def _has_handlers(callbacks: Any) -> bool:
    if not callbacks:
        return False
    return isinstance(callbacks, list) or bool(callbacks.handlers)
