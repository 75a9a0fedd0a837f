"""The tools of a configuration: as listed, and as offered after filters, overrides and renaming."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from plait.cli.doctor.findings import Examined, Finding, findings_from_config_error
from plait.client.catalog.filters import ToolFilter
from plait.client.catalog.names import with_public_names
from plait.client.catalog.options import CatalogOptions
from plait.client.catalog.overrides import apply_override, override_for
from plait.client.catalog.sanitize_tools import sanitize_tool
from plait.client.catalog.schemas import Profile
from plait.client.catalog.tool import Tool
from plait.client.config.read import ClientConfig
from plait.client.config.servers import ServerConfig
from plait.client.options import call_settings_from, catalog_options_from
from plait.errors import ConfigError

ByServer = Mapping[str, tuple[Tool, ...]]
"""Tools by server, in the order of the configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The tools of a configuration, and the options of its client."""

    servers: Mapping[str, ServerConfig]
    """The examined servers."""

    known: frozenset[str]
    """All servers of the configuration, examined or not."""

    disabled: tuple[str, ...] = ()
    """The disabled servers."""

    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The valid options of the client."""

    catalog_options: CatalogOptions = field(default_factory=CatalogOptions)
    listed: ByServer = field(default_factory=dict[str, tuple[Tool, ...]])
    """The tools as listed by the servers."""

    offered: ByServer = field(default_factory=dict[str, tuple[Tool, ...]])
    """The tools as offered by the client."""

    refusals: tuple[Finding, ...] = ()
    """Findings about invalid options."""

    @property
    def profile(self) -> Profile | None:
        """The provider profile of the client, if set."""
        return self.options.get("profile")

    @property
    def together(self) -> list[Tool]:
        """The offered tools of all servers, without those of backups."""
        return [
            tool
            for name in self.catalog_options.listed_servers(self.offered)
            for tool in self.offered[name]
        ]

    def covers(self, servers: Iterable[str]) -> bool:
        """Return whether the tools of all these servers are known."""
        return set(servers) <= set(self.listed)


def survey_of(
    config: ClientConfig, examined: Iterable[Examined], known: Iterable[str] | None = None
) -> Survey:
    """Apply the options of a client to the listed tools, and collect findings about the options.

    `known` are the servers of the configuration, if only some were examined.
    """
    options, refusals = _usable(config.options)
    catalog_options = catalog_options_from(options)
    listed = {server.name: server.listed for server in examined if server.listed is not None}
    offered_by_server: dict[str, tuple[Tool, ...]] = {}
    for name, tools in listed.items():
        tool_filter = _filter_for(config.servers[name], name, catalog_options, refusals)
        offered = [tool for tool in tools if tool_filter.offers(tool)]
        offered_by_server[name] = tuple(
            _changed(tool, catalog_options, refusals) for tool in offered
        )
    return Survey(
        servers=config.servers,
        known=frozenset(config.servers if known is None else known),
        disabled=config.disabled,
        options=options,
        catalog_options=catalog_options,
        listed=listed,
        offered=_named(offered_by_server, catalog_options),
        refusals=tuple(refusals),
    )


def _usable(options: Mapping[str, Any]) -> tuple[dict[str, Any], list[Finding]]:
    """Keep the valid options, and return findings about the others."""
    kept: dict[str, Any] = {}
    refusals: list[Finding] = []
    for name, value in options.items():
        try:
            catalog_options_from({name: value})
            call_settings_from({name: value})
        except ConfigError as error:
            refusals += findings_from_config_error(error)
        else:
            kept[name] = value
    return kept, refusals


def _filter_for(
    server: ServerConfig, name: str, catalog_options: CatalogOptions, refusals: list[Finding]
) -> ToolFilter:
    try:
        return catalog_options.filter_for(server)
    except ConfigError as error:
        refusals += findings_from_config_error(error, name)
        return ToolFilter()


def _changed(tool: Tool, catalog_options: CatalogOptions, refusals: list[Finding]) -> Tool:
    if catalog_options.sanitize:
        tool, _ = sanitize_tool(tool)
    override = override_for(catalog_options.overrides, tool)
    if override is None:
        return tool
    try:
        return apply_override(tool, override)
    except ConfigError as error:
        refusals += findings_from_config_error(error, tool.server)
        return tool


def _named(offered_by_server: ByServer, catalog_options: CatalogOptions) -> ByServer:
    """Set the public names; backups are named separately."""
    # A forbidden collision is reported by another check; here it is resolved.
    policy = replace(catalog_options.names, on_collision="prefix")
    together = catalog_options.listed_servers(offered_by_server)
    named = with_public_names(
        (tool for name in together for tool in offered_by_server[name]), policy
    )
    return {
        name: tuple(tool for tool in named if tool.server == name)
        if name in together
        else tuple(with_public_names(offered_by_server[name], policy))
        for name in offered_by_server
    }
