"""What a client makes of the tools that its servers list: filtered, changed and named."""

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
"""Tools of the servers that listed theirs, in the order of the configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The tools of a configuration, and the wishes of its client."""

    servers: Mapping[str, ServerConfig]
    """Those that were examined."""

    known: frozenset[str]
    """Those that the configuration has, examined or not."""

    disabled: tuple[str, ...] = ()
    """Those that are switched off."""

    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The client's options, less those that it would refuse."""

    catalog_options: CatalogOptions = field(default_factory=CatalogOptions)

    listed: ByServer = field(default_factory=dict[str, tuple[Tool, ...]])
    """As the servers have them."""

    offered: ByServer = field(default_factory=dict[str, tuple[Tool, ...]])
    """As the client hands them out."""

    refusals: tuple[Finding, ...] = ()
    """What the client would refuse to start with."""

    @property
    def profile(self) -> Profile | None:
        """The profile of all tools, where the client sets one."""
        return self.options.get("profile")

    @property
    def together(self) -> list[Tool]:
        """The tools that a client hands out when no server is named: not those of backups."""
        return [
            tool
            for name in self.catalog_options.listed_servers(self.offered)
            for tool in self.offered[name]
        ]

    def covers(self, servers: Iterable[str]) -> bool:
        """Say whether the tools of all these servers are known."""
        return set(servers) <= set(self.listed)


def survey_of(
    config: ClientConfig, seen: Iterable[Examined], known: Iterable[str] | None = None
) -> Survey:
    """Apply a client's options to the tools that were listed; what it would refuse is noted.

    `known` names the servers of the configuration, where not all of them were examined.
    """
    options, refusals = _usable(config.options)
    catalog_options = catalog_options_from(options)
    listed = {one.name: one.listed for one in seen if one.listed is not None}
    shaped: dict[str, tuple[Tool, ...]] = {}
    for name, tools in listed.items():
        wanted = _filter_for(config.servers[name], name, catalog_options, refusals)
        offered = [tool for tool in tools if wanted.offers(tool)]
        shaped[name] = tuple(_changed(tool, catalog_options, refusals) for tool in offered)
    return Survey(
        servers=config.servers,
        known=frozenset(config.servers if known is None else known),
        disabled=config.disabled,
        options=options,
        catalog_options=catalog_options,
        listed=listed,
        offered=_named(shaped, catalog_options),
        refusals=tuple(refusals),
    )


def _usable(options: Mapping[str, Any]) -> tuple[dict[str, Any], list[Finding]]:
    """Keep the options that a client takes, and say why it refuses the others."""
    kept: dict[str, Any] = {}
    refusals: list[Finding] = []
    for name, value in options.items():
        try:
            catalog_options_from({name: value})
            call_settings_from({name: value}, default_seconds=None, observers=())
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
        refusals += [replace(one, server=name) for one in findings_from_config_error(error)]
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
        refusals += [replace(one, server=tool.server) for one in findings_from_config_error(error)]
        return tool


def _named(shaped: ByServer, catalog_options: CatalogOptions) -> ByServer:
    """Name the tools as a client does; backups are asked for by themselves."""
    # A collision that is refused is a finding of its own, so here it is only settled.
    policy = replace(catalog_options.names, on_collision="prefix")
    together = catalog_options.listed_servers(shaped)
    named = with_public_names((tool for name in together for tool in shaped[name]), policy)
    return {
        name: tuple(tool for tool in named if tool.server == name)
        if name in together
        else tuple(with_public_names(shaped[name], policy))
        for name in shaped
    }
