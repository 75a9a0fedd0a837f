"""What plait uses of LangChain, LangGraph, LangSmith and the MCP SDK beyond their public interface.

No other module of plait knows a private name of these packages. Each part below is checked when
this module is imported. If a release has changed what a part needs, the part is switched off, and
plait takes the slower public way:

- `may_run_again` tells a first run of a task from a repeated one by two private entries of its
  config. Without them, every task counts as repeated: before its first call it reads its records
  from the checkpointer.
- `has_hooks` and `is_original` find out whether somebody observes the run of a tool. Without them,
  every run counts as observed, and LangChain prepares it.
- `traces_to_langsmith` asks LangSmith's context variables. Without them, it calls LangSmith's own
  function, which takes longer than a call on a local server.
- `InvocationTool` replaces the method in which LangChain turns the input of a tool into keywords,
  so that arguments may have any name. If LangChain does not call it, an argument may have been lost
  to one of its own, and the call is refused.
- `langsmith_params` reads how a model describes itself. Without it, the names of its class and its
  fields are used.
- `replace_http_client` gives Anthropic's models connections of their own. Without it, they keep
  those that LangChain shares in the process, which fail in a second event loop.
- `dispatcher_of` and `with_dispatcher` let the results of a session of MCP SDK 2.x be repaired
  before the SDK validates them. Without them, the session is used as it is.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from copy import copy
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from langchain_core.callbacks import base as callbacks_base
from langchain_core.callbacks import manager as callbacks_manager
from langchain_core.tools import BaseTool
from langchain_core.tools import base as tools_base
from langchain_core.utils.env import env_var_is_set
from langsmith.utils import get_env_var, tracing_is_enabled  # pyright: ignore[reportUnknownVariableType]
from typing_extensions import override

from plait.errors import ConfigError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


def _private_name(module: str, name: str) -> Any:
    """Return what a private module has under a name, or `None`."""
    try:
        return getattr(import_module(module), name, None)
    except ImportError:
        return None


_RESUMING: str | None = _private_name("langgraph._internal._constants", "CONFIG_KEY_RESUMING")
_SCRATCHPAD: str | None = _private_name("langgraph._internal._constants", "CONFIG_KEY_SCRATCHPAD")


_scratchpad: Any = _private_name("langgraph._internal._scratchpad", "PregelScratchpad")

KNOWS_FIRST_RUNS = (
    isinstance(_RESUMING, str)
    and isinstance(_SCRATCHPAD, str)
    and dataclasses.is_dataclass(_scratchpad)
    # It lists the answers to the interrupts of its task.
    and "resume" in {field.name for field in dataclasses.fields(_scratchpad)}
)


def may_run_again(configurable: Mapping[str, Any]) -> bool:
    """Return whether the task of a graph may have run before, with the same checkpoint."""
    if not KNOWS_FIRST_RUNS or (scratchpad := configurable.get(_SCRATCHPAD or "")) is None:
        return True
    return bool(configurable.get(_RESUMING or "")) or bool(scratchpad.resume)


def is_resumed(configurable: Mapping[str, Any]) -> bool:
    """Return whether the run of a graph is known to resume an earlier one."""
    return KNOWS_FIRST_RUNS and bool(configurable.get(_RESUMING or ""))


_hooks: Iterable[Any] | None = _private_name("langchain_core.tracers.context", "_configure_hooks")


def _are_hooks(hooks: object) -> bool:
    if not isinstance(hooks, list):
        return False
    return all(
        isinstance(hook, tuple) and len(hook) == 4 and isinstance(hook[0], ContextVar)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        for hook in hooks  # pyright: ignore[reportUnknownVariableType]
    )


def _functions() -> tuple[Callable[..., Any] | None, ...]:
    """Return what instrumentation replaces to observe runs."""
    return (
        callbacks_base.BaseCallbackManager.__init__,
        getattr(callbacks_manager, "_configure", None),
        BaseTool.ainvoke,
        BaseTool.arun,
        BaseTool.invoke,
        BaseTool.run,
    )


def _written_by_langchain(function: Callable[..., Any] | None) -> bool:
    files = {module.__file__ for module in (callbacks_base, callbacks_manager, tools_base)}
    code = getattr(function, "__code__", None)
    return not hasattr(function, "__wrapped__") and getattr(code, "co_filename", None) in files


_original_functions = tuple(
    function for function in _functions() if _written_by_langchain(function)
)

KNOWS_OBSERVERS = _are_hooks(_hooks) and None not in _functions()


def has_hooks() -> bool:
    """Return whether a hook that was registered with LangChain may observe a run."""
    if not KNOWS_OBSERVERS or _hooks is None:
        return True
    for variable, _, _, name in _hooks:
        if variable.get() is not None or (name is not None and env_var_is_set(name)):
            return True
    return False


def is_original() -> bool:
    """Return whether no instrumentation has replaced what LangChain runs tools with."""
    return KNOWS_OBSERVERS and _functions() == _original_functions


_langsmith: Any = None
with contextlib.suppress(ImportError):
    _langsmith = import_module("langsmith._internal._context")

KNOWS_TRACING = (
    isinstance(getattr(_langsmith, "_TRACING_ENABLED", None), ContextVar)
    and isinstance(getattr(_langsmith, "_PARENT_RUN_TREE_REF", None), ContextVar)
    and hasattr(_langsmith, "_GLOBAL_TRACING_ENABLED")
)


def traces_to_langsmith() -> bool:
    """Do what `tracing_is_enabled` does, which is slow where only the environment decides."""
    if (
        not KNOWS_TRACING
        or _langsmith._TRACING_ENABLED.get() is not None  # noqa: SLF001
        or _langsmith._PARENT_RUN_TREE_REF.get() is not None  # noqa: SLF001
        or _langsmith._GLOBAL_TRACING_ENABLED is not None  # noqa: SLF001
    ):
        return bool(tracing_is_enabled())
    return get_env_var("TRACING_V2", default=get_env_var("TRACING", default="")) == "true"


class InvocationTool(BaseTool):
    """A tool whose `_run` and `_arun` get one keyword: the invocation."""

    injected: ClassVar[frozenset[str]] = frozenset()
    """The arguments that a graph adds, which callbacks do not get."""

    def invocation_from(self, tool_input: str | dict[str, Any], tool_call_id: str | None) -> Any:
        """Return the invocation for the input of a run."""
        raise NotImplementedError

    @cached_property
    def _injected_args_keys(self) -> frozenset[str]:
        return self.injected

    @override
    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (), {"invocation": self.invocation_from(tool_input, tool_call_id)}


_T = TypeVar("_T")


def checked_invocation(invocation: _T | None) -> _T:
    """Return the invocation that `InvocationTool` has made.

    Raises:
        ConfigError: LangChain passed the arguments in another way.
    """
    if invocation is None:
        raise ConfigError(
            "this version of langchain-core passes the arguments of a tool in a way that plait "
            "does not know. The call was not sent. Install a version of 'langchain>=1.4,<2' that "
            "plait is tested with"
        )
    return invocation


def langsmith_params(model: BaseChatModel) -> Mapping[str, Any]:
    """Return how a chat model describes itself to LangSmith, such as its `ls_provider`."""
    describe = getattr(model, "_get_ls_params", None)
    if callable(describe) and isinstance(described := describe(), Mapping):
        return described  # pyright: ignore[reportUnknownVariableType]
    name = getattr(model, "model_name", None) or getattr(model, "model", None)
    return {"ls_provider": type(model).__name__.removeprefix("Chat").lower(), "ls_model_name": name}


def replace_http_client(model: BaseChatModel, make: Callable[[str | None], Any]) -> None:
    """Give an Anthropic model, which has no setting for it, the HTTP client for its address."""
    params: object = getattr(model, "_client_params", None)
    if not isinstance(params, dict) or not hasattr(type(model), "_async_client"):
        return
    from anthropic import AsyncAnthropic  # noqa: PLC0415  # installed, since the model was created

    settings = cast("dict[str, Any]", params)
    client = AsyncAnthropic(**settings, http_client=make(settings.get("base_url")))
    vars(model)["_async_client"] = client


def dispatcher_of(session: object) -> Any:
    """Return what sends the requests of a session of MCP SDK 2.x; `None` if that is not known."""
    dispatcher = getattr(session, "_dispatcher", None)
    return dispatcher if hasattr(dispatcher, "send_raw_request") else None


def with_dispatcher(session: Any, dispatcher: object) -> Any:
    """Return a copy of a session that sends its requests with another dispatcher."""
    copied = copy(session)
    vars(copied)["_dispatcher"] = dispatcher
    return copied
