"""The servers with `"sharing": "all"`: one session of each, for all clients."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

from plait.client.calls.tool_call import CallbackContext, decline
from plait.client.toolbox import Toolbox

if TYPE_CHECKING:
    from plait.client.config.read import ClientConfig
    from plait.client.protocol.session import OnElicitation
    from plait.serve.upstream import Upstream


def with_sharing(config: ClientConfig, *, shared: bool) -> ClientConfig:
    """Keep the servers that all clients share, or the others."""
    kept = {
        name: server
        for name, server in config.servers.items()
        if (server.sharing == "all") is shared
    }
    options = dict(config.options)
    fallbacks = cast("dict[str, str]", options.get("fallbacks") or {})
    if fallbacks:
        options["fallbacks"] = {
            name: backup for name, backup in fallbacks.items() if {name, backup} <= kept.keys()
        }
    return replace(config, servers=kept, options=options)


class SharedServers:
    """Tells every client what shared servers announce; questions go to the client of the call.

    A question that no call has caused is declined, and these servers get no model and no roots:
    nobody could say whose.
    """

    def __init__(self, config: ClientConfig, upstreams: WeakSet[Upstream]) -> None:
        self._upstreams = upstreams
        options: dict[str, Any] = {"log_level": config.options.get("log_level") or "info"}
        self.box = Toolbox(
            with_sharing(config, shared=True),
            **options,
            watch=False,
            on_elicitation=_decline_outside_calls,
            on_initialized=self._opened,
            on_tools_list_changed=self._tools_changed,
            on_prompts_list_changed=self._prompts_changed,
            on_resources_list_changed=self._resources_changed,
        )

    def _all(self) -> Iterable[Upstream]:
        return tuple(self._upstreams)

    def _opened(self, info: Any, context: CallbackContext) -> None:
        for upstream in self._all():
            upstream.opened(info, context)

    def _tools_changed(self, params: object, context: CallbackContext) -> None:
        del params
        for upstream in self._all():
            upstream.refresh(context.server_name, "tools", announced=True)

    def _prompts_changed(self, params: object, context: CallbackContext) -> None:
        del params
        for upstream in self._all():
            upstream.refresh(context.server_name, "prompts", announced=True)

    def _resources_changed(self, params: object, context: CallbackContext) -> None:
        del params
        for upstream in self._all():
            upstream.refresh(context.server_name, "resources", "resourceTemplates", announced=True)


def _decline_outside_calls(server: str) -> OnElicitation:
    del server
    return decline
