"""The constants that are used without importing the types of MCP."""

from __future__ import annotations

from types import SimpleNamespace

import mcp_types
from mcp_types import version

from plait._support import mcp_types as lazy


def test_constants_are_those_of_the_package() -> None:
    own = {
        name: value
        for name, value in vars(lazy).items()
        if name.isupper() and name != "TYPE_CHECKING"
    }

    assert "PROTOCOL_VERSION_META_KEY" in own
    assert {name: getattr(mcp_types, name) for name in own} == own


def test_versions_are_those_of_the_package() -> None:
    assert isinstance(lazy.version, SimpleNamespace)
    known = vars(lazy.version)

    assert "MODERN_PROTOCOL_VERSIONS" in known
    assert {name: getattr(version, name) for name in known} == known
