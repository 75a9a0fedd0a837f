"""The steps of a tool call: credentials, argument overrides, policy, execution, result budget."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from plait._support.gather import resolve
from plait._support.redact import Redactor
from plait.client.calls.result_budget.limiter import READ_MORE, ResultLimiter
from plait.client.calls.tool_call import RunIdentity, ToolCall
from plait.client.catalog.overrides import complete_arguments
from plait.client.config.servers import RemoteServer, ServerConfig, StdioServer
from plait.client.connections.credentials import CallerCredentials, join
from plait.client.connections.pool import unknown_server
from plait.errors import ConfigError, PlaitError

if TYPE_CHECKING:
    import mcp_types as types

    from plait.client.calls.approval import PolicyCheck
    from plait.client.calls.direct import CallPlan
    from plait.client.calls.executor import ToolExecutor
    from plait.client.calls.outcome import ToolResult
    from plait.client.catalog.tool import Tool
    from plait.client.config.policy import PolicyDecision
    from plait.client.runtime import Lifecycle

Run = Mapping[str, Any]
"""The configuration of a run, as LangChain passes it: `configurable`, `metadata`, tags."""

_MAX_PLAIN = 1000
"""How many tools are remembered whose calls need no other step."""


def takes_run(function: object) -> bool:
    """Say whether a value is a function with a parameter for the run."""
    if not callable(function) or isinstance(function, type):
        return False
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return any(parameter.kind in positional for parameter in parameters)


def _run_functions(server: ServerConfig) -> dict[str, Any]:
    """Return the settings of a server that are functions of the run, by name."""
    depends: dict[str, bool] = {}
    if isinstance(server, RemoteServer):
        depends = {"headers": takes_run(server.headers), "auth": _is_auth_function(server.auth)}
    elif isinstance(server, StdioServer):
        depends = {"env": callable(server.env)}
    return {name: getattr(server, name) for name, is_function in depends.items() if is_function}


def without_run(server: ServerConfig) -> ServerConfig:
    """Return the server without credentials that depend on the run."""
    changes: dict[str, Any] = {name: {} for name in _run_functions(server)}
    if "auth" in changes:
        changes["auth"] = None
    return replace(server, **changes) if changes else server


def depends_on_run(server: ServerConfig) -> bool:
    """Return whether the credentials or the session of a call depend on its run."""
    return bool(_run_functions(server)) or server.scope == "thread"


async def access_for(name: str, server: ServerConfig, run: Run | None) -> CallerCredentials | None:
    """Return the credentials of a run on a server; the functions run in the caller's loop."""
    values = {
        setting: await _value(name, setting, function, run)
        for setting, function in _run_functions(server).items()
    }
    if isinstance(token := values.get("auth"), str):
        del values["auth"]
        values["headers"] = {**values.get("headers", {}), "Authorization": f"Bearer {token}"}
    thread = thread_of(run) if server.scope == "thread" else None
    return CallerCredentials.of(
        values.get("headers"), values.get("auth"), env=values.get("env"), thread=thread
    )


def thread_of(run: Run | None) -> str | None:
    """Return the id of the conversation that a run belongs to."""
    configurable: Mapping[str, Any] = (run or {}).get("configurable") or {}
    thread = configurable.get("thread_id")
    return None if thread is None else str(thread)


def run_identity_of(run: Run | None) -> RunIdentity | None:
    """Return the run and conversation of a call; `None` if it has neither."""
    key, thread = (run or {}).get("run_id"), thread_of(run)
    return None if key is None and thread is None else RunIdentity(key=key, thread=thread)


def _is_auth_function(auth: object) -> bool:
    return inspect.isroutine(auth) or (takes_run(auth) and not hasattr(auth, "async_auth_flow"))


async def _value(name: str, setting: str, function: Callable[..., Any], run: Run | None) -> Any:
    try:
        value = await resolve(function(run or {}) if takes_run(function) else function())
    except Exception as error:
        hint = "" if run else "; it was called without a run: pass `config` to get_tools"
        reason = f"{type(error).__name__}: {Redactor().excerpt(str(error))}"
        text = f"{name}: the function for `{setting}` failed: {reason}{hint}"
        raise ConfigError(text, server=name) from error
    if setting == "auth" or isinstance(value, Mapping):
        return cast("Any", value)
    if value is not None:
        kind = type(value).__name__
        text = f"{name}: the function for `{setting}` returned a {kind}; it must return a mapping"
        raise ConfigError(text, server=name)
    return {}


class CallPipeline:
    """Makes the tool calls of a client.

    `run` takes all steps; adapters that put their own code between the steps call them one by one,
    in the order `access_for`, `apply_overrides`, `execute`, `bounded`.
    """

    def __init__(
        self,
        lifecycle: Lifecycle,
        servers: Mapping[str, ServerConfig],
        *,
        policy: PolicyCheck,
        limiter: ResultLimiter,
    ) -> None:
        """Take the parts; `servers` may change later."""
        self._lifecycle = lifecycle
        self._servers = servers
        self.policy = policy
        self.limiter = limiter
        self.bounded = limiter.limited
        self.run_blocking = lifecycle.run_blocking
        self._plain: dict[tuple[str, str], CallPlan] = {}
        """The plans of tools whose calls need no step but `execute`."""

    async def run(self, call: ToolCall, *, reader: str = READ_MORE) -> ToolResult:
        """Apply overrides, make the call, and keep its result within the budget."""
        completed = call
        if self._lifecycle.runtime.executor.direct_tool(call.server, call.tool).plan is None:
            completed = await self.apply_overrides(call, context=call)
        result = await self.execute(completed)
        return await self.bounded(result, call, reader=reader)

    def plain(self, server: str, tool: str) -> ToolExecutor | None:
        """Return what makes the calls of a tool, if they need no other step."""
        executor = self._lifecycle.runtime.executor
        plan = executor.direct_tool(server, tool).plan
        if plan is None or self._lifecycle.closed:
            return None
        if self._plain.get((server, tool)) is plan:
            return executor
        config = self._servers.get(server)
        if config is None or depends_on_run(config) or self.limiter.limits(server):
            return None
        if server in executor.settings.fallbacks:
            return None  # functions of its overrides may need to know the request
        if len(self._plain) >= _MAX_PLAIN:
            self._plain.clear()
        self._plain[server, tool] = plan
        return executor

    async def access_for(
        self, server: str, run: Run | None, access: CallerCredentials | None = None
    ) -> CallerCredentials | None:
        """Return the credentials of a run on a server; those in `access` win."""
        self.check_server(server)
        return join(await access_for(server, self._servers[server], run), access)

    async def apply_overrides(self, call: ToolCall, *, context: object) -> ToolCall:
        """Return the call with the tool's overrides applied; their functions get the `context`."""
        runtime = self._lifecycle.runtime
        backup = runtime.executor.settings.fallbacks.get(call.server)
        if backup is not None:
            call = replace(call, override_context=context)
        try:
            tool = await self._tool_of(call)
        except PlaitError:
            # The server cannot list its tools; if it has a backup, that one is called.
            if backup is None:
                raise
            tool = runtime.catalog.known(backup, call.tool)
        if tool is None or tool.override is None:
            return call
        return replace(call, arguments=await complete_arguments(tool, call.arguments, context))

    async def execute(self, call: ToolCall) -> ToolResult:
        """Make a call as it is."""
        self.check_server(call.server)
        runtime = await self._lifecycle.open()
        return await runtime.executor.run(call)

    async def run_local(
        self,
        call: ToolCall,
        tool: Tool,
        function: Callable[[ToolCall], Awaitable[ToolResult]],
        *,
        reader: str = READ_MORE,
    ) -> ToolResult:
        """Call a function of the program: permitted, counted and bounded as calls of servers."""
        runtime = await self._lifecycle.open()
        result = await runtime.executor.run_local(call, tool, function)
        return await self.bounded(result, call, reader=reader)

    async def decide(self, call: ToolCall) -> PolicyDecision:
        """Return the policy's decision about a call, without making it or asking for approval."""
        call = await self.apply_overrides(call, context=call)
        return self.policy.decide(call, await self._tool_of(call))

    async def read_more(self, call: ToolCall, *, reader: str = READ_MORE) -> ToolResult:
        """Answer a call of `read_more`."""
        self._lifecycle.check_open()
        return await self.limiter.answer_read_more(call, reader=reader)

    async def read_resource(
        self, server: str, uri: str, *, access: CallerCredentials | None = None
    ) -> types.ReadResourceResult:
        """Read a resource, with the credentials of a call."""
        self.check_server(server)
        return await self._lifecycle.run(
            lambda runtime: runtime.request(
                server,
                lambda client: client.read_resource(uri),
                "resources/read",
                access=access,
            )
        )

    async def _tool_of(self, call: ToolCall) -> Tool | None:
        self.check_server(call.server)
        known = self._lifecycle.runtime.catalog.known(call.server, call.tool, call.access)
        if known is not None:
            return known
        return await self._lifecycle.run(
            lambda runtime: runtime.catalog.recall(call.server, call.tool, call.access)
        )

    def check_server(self, server: str) -> None:
        """Raise `UnknownServerError` if there is no such server."""
        if server not in self._servers:
            raise unknown_server(server, self._servers)
