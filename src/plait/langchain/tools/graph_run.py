"""What a tool call needs to know of its LangGraph run: its identity, and whether it can pause."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.types import Interrupt

from plait._support.mappings import entries_of
from plait._support.threads import in_thread
from plait.client.calls.tool_call import RunIdentity
from plait.client.connections.credentials import thread_of
from plait.errors import ConfigError
from plait.langchain.library_internals import is_resumed, may_run_again

if TYPE_CHECKING:
    from langgraph.runtime import ExecutionInfo, Runtime

CALL_OPTIONS = frozenset({"timeout", "deadline"})
"""Options of calls in the `configurable` part of a config."""


Write = tuple[str, str, Any]
"""What the checkpointer keeps for a task: its id, a channel and a value."""


def configurable_of(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the `configurable` part of a run's config."""
    return config.get("configurable") or {}


class as_run_config:  # noqa: N801  # a generator would take three times as long, in every call
    """Makes a config that of the run meanwhile, as LangChain does; interrupts look there."""

    def __init__(self, config: RunnableConfig | None) -> None:
        self._config = config

    def __enter__(self) -> None:
        self._token = var_child_runnable_config.set(self._config)

    def __exit__(self, *exc_info: object) -> None:
        var_child_runnable_config.reset(self._token)


def run_identity(config: Mapping[str, Any], runtime: object | None = None) -> RunIdentity:
    """Identify the run and the conversation of a call.

    LangGraph gives every run one control object, which subgraphs share; tools do not get its run
    id. A resumed run has a new one, is marked as resumed in its first step only, and has the same
    last human message.
    """
    state = getattr(runtime, "state", None)
    fields = entries_of(state) or entries_of(getattr(state, "__dict__", None))
    messages = fields.get("messages")
    newest_first = reversed(
        cast("Sequence[object]", messages if isinstance(messages, Sequence) else ())
    )
    return RunIdentity(
        key=getattr(_graph_runtime(), "control", None),
        thread=thread_of(config),
        turn=next((item.id for item in newest_first if isinstance(item, HumanMessage)), None),
        resumed=is_resumed(configurable_of(config)),
    )


def _graph_runtime() -> Runtime[Any] | None:
    """Return what LangGraph gives the node that runs here; `None` outside of a graph."""
    module = sys.modules.get("langgraph.runtime")  # a graph that runs has imported it
    if module is None:
        return None
    try:
        return module.get_runtime()
    except (KeyError, RuntimeError):
        return None


def task_of(configurable: Mapping[str, Any]) -> TaskFacts | None:
    """Return the task that makes a call; `None` if its graph cannot pause.

    Raises:
        ConfigError: The graph can pause, and LangGraph does not say which task makes the call. So
            nobody could tell whether the task makes it for the second time.
    """
    saver = configurable.get(CONFIG_KEY_CHECKPOINTER)
    if not saver:
        return None
    info = getattr(_graph_runtime(), "execution_info", None)
    if info is None:
        raise ConfigError(
            "this version of langgraph does not say which task of a graph calls a tool, so that a "
            "resumed graph could make the call twice. It was not sent. Install "
            "'langgraph>=1.2,<2' in a version that plait is tested with, or compile the graph "
            "without a checkpointer"
        )
    return TaskFacts(
        saver=saver,
        info=info,
        thread=str(configurable.get("thread_id")),
        namespace=info.checkpoint_ns,
        checkpoints=configurable.get("checkpoint_map") or {},
        runs_again=info.node_attempt > 1 or may_run_again(configurable),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """A task of a graph, and what its checkpointer has of it."""

    saver: Any = field(repr=False)
    info: ExecutionInfo = field(repr=False)
    """What LangGraph says of this attempt at the task; another attempt has another object."""
    thread: str
    namespace: str
    """The path of the task in its graph, the same in each of its runs."""
    checkpoints: Mapping[str, str] = field(repr=False)
    """The ids of the checkpoints of the graphs around it."""
    runs_again: bool
    """Whether the node may have run before."""

    async def writes(self) -> tuple[list[Write], list[Write]]:
        """Return what was written for the tasks of the checkpoint.

        The second list is of the checkpoints that it was made of by editing the state, with
        `update_state`. Their tasks did not end: others of this checkpoint are in their place.
        """
        saved = await self._ask_saver("get_tuple", self._where)
        writes: list[Write] = list((saved and saved.pending_writes) or ())
        edited: list[Write] = []
        while saved and saved.metadata.get("source") == "update" and saved.parent_config:
            saved = await self._ask_saver("get_tuple", saved.parent_config)
            edited += (saved and saved.pending_writes) or ()
        return writes, edited

    async def write(self, task: str, channel: str, value: object) -> None:
        """Write a value for a task."""
        await self._ask_saver("put_writes", self._where, [(channel, value)], task)

    def last_interrupt(self, writes: Sequence[Write]) -> Interrupt[Any] | None:
        """Return the interrupt that the task ended with."""
        own = [value for task, _, value in writes if task == self.info.task_id]
        parts = [cast("Sequence[object]", one) for one in own if isinstance(one, list | tuple)]
        found: list[Any] = [one for part in parts for one in part if isinstance(one, Interrupt)]
        return found[-1] if found else None

    @property
    def _where(self) -> dict[str, Any]:
        outer = self.namespace.rpartition("|")[0]
        where = {"thread_id": self.thread, "checkpoint_ns": outer}
        if (checkpoint := self.checkpoints.get(outer)) is not None:
            # A task of the functional API is one of the graph that runs the function.
            around = [name for name, id_ in self.checkpoints.items() if id_ == checkpoint]
            where |= {"checkpoint_ns": min(around, key=len), "checkpoint_id": checkpoint}
        return {"configurable": where}

    async def _ask_saver(self, method: str, *arguments: Any) -> Any:
        """Call a method of the checkpointer, in the way it can be called here."""
        here = asyncio.get_running_loop()
        if getattr(self.saver, "loop", here) is here:
            with contextlib.suppress(NotImplementedError):
                return await getattr(self.saver, f"a{method}")(*arguments)
        return await in_thread(getattr(self.saver, method), *arguments)
