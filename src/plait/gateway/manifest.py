"""`ToolingManifest.json`: the servers of an agent during development."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from plait._support.files import write_atomically
from plait._support.mappings import entries_of as mapping_of
from plait.client.config.document import JsonSyntaxError, decode_text, parse_jsonc
from plait.errors import ManifestError
from plait.gateway.entries import ServerList, UrlFor, entries_of, servers_from

logger = logging.getLogger("plait.gateway")

FILE = "ToolingManifest.json"


def manifest_places(cwd: Path | None = None, script: str | None = None) -> list[Path]:
    """Return where the file is searched: working directory, its parent, folder of the program."""
    here = cwd or Path.cwd()
    program = sys.argv[0] if script is None and sys.argv else script
    folders = [here, here.parent, *([Path(program).resolve().parent] if program else [])]
    return [folder / FILE for folder in dict.fromkeys(folders)]


def find_manifest() -> Path | None:
    """Return the first manifest that exists."""
    return next((place for place in manifest_places() if place.is_file()), None)


def read_manifest(path: Path | None, url_for: UrlFor) -> ServerList:
    """Read the servers of a manifest; without a file there are none."""
    manifest = path or find_manifest()
    if manifest is None:
        places = ", ".join(map(str, manifest_places()))
        logger.warning("there is no %s; looked for %s", FILE, places)
        return ServerList()
    if path is not None and not path.is_file():
        raise ManifestError(f"there is no {path}")
    entries = entries_of(_document(manifest))
    if entries is None:
        logger.warning("%s has no list mcpServers", manifest)
        return ServerList()
    return servers_from(entries, url_for)


def add_entries(path: Path, entries: Iterable[Mapping[str, Any]]) -> list[str]:
    """Add entries to a manifest, which is created if it does not exist; return the new names.

    An entry of the same name is updated.
    """
    document = _object(path) if path.is_file() else {}
    listed: list[Any] = entries_of(document) or []
    added: list[str] = []
    for entry in entries:
        name = entry["mcpServerName"]
        index = next((at for at, each in enumerate(listed) if _is_called(each, name)), None)
        if index is not None:
            listed[index] = {**listed[index], **entry}
        else:
            listed.append(dict(entry))
            added.append(name)
    _write(path, {**document, "mcpServers": listed})
    return added


def remove_entries(path: Path, names: Iterable[str]) -> list[str]:
    """Remove entries from a manifest; return the names that were found."""
    document = _object(path)
    listed = entries_of(document) or []
    names = list(names)
    removed = [name for name in names if any(_is_called(entry, name) for entry in listed)]
    left = [entry for entry in listed if not any(_is_called(entry, name) for name in names)]
    if removed:
        _write(path, {**document, "mcpServers": left})
    return removed


def _is_called(entry: object, name: str) -> bool:
    fields = mapping_of(entry)
    return name in {fields.get("mcpServerName"), fields.get("mcpServerUniqueName")}


def _object(path: Path) -> dict[str, Any]:
    document = _document(path)
    if not isinstance(document, dict):
        raise ManifestError(f"{path} is not an object with a list mcpServers")
    return cast("dict[str, Any]", document)


def _document(path: Path) -> object:
    try:
        return parse_jsonc(decode_text(path.read_bytes())).value
    except (OSError, UnicodeDecodeError, JsonSyntaxError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        text = f"Failed to read MCP servers from {FILE}: {path}: {reason}"
        raise ManifestError(text) from error


def _write(path: Path, document: Mapping[str, Any]) -> None:
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    try:
        write_atomically(path, text)
    except OSError as error:
        raise ManifestError(f"{path} cannot be written: {error.strerror}") from error
