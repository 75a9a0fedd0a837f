"""What the servers offered when they were last seen, on disk, so that a client need not wait."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plait._support.files import write_atomically
from plait._support.folders import cache_folder
from plait._support.redact import encoded_forms
from plait._version import __version__
from plait.client.config.document import read_json_file
from plait.client.config.keys import SERVER_LISTS
from plait.client.config.raw_value import Location, Problems, as_mapping
from plait.client.config.secrets import secret_values
from plait.client.options import lock_mode, lockfile_path
from plait.serve.first_answers import fingerprint, read_own_file

if TYPE_CHECKING:
    from plait.client.config.read import ClientConfig
    from plait.serve.upstream import Offer

logger = logging.getLogger("plait.serve")

SAVE_SECONDS = 0.5
_FINGERPRINT = "configured"
"""The key with what a server's entry was when it listed this."""


def fingerprints(config: ClientConfig) -> dict[str, str]:
    """Return what changes with the entry of each server, or with the options of the client."""
    problems = Problems()
    document: Mapping[str, Any] = {}
    if config.source is not None:
        path = Path(config.source)
        document = read_json_file(path, Location(problems, file=config.source)) or {}
    options = {key: value for key, value in document.items() if key not in SERVER_LISTS}
    if lock_mode(config.options) != "off":
        options["lockfile"] = fingerprint([str(lockfile_path(config.options, config.source))])
    entries = [as_mapping(document.get(key)) or {} for key in SERVER_LISTS]
    found: dict[str, str] = {}
    for name in config.servers:
        entry = [listed.get(name) for listed in entries]
        text = json.dumps([entry, options], sort_keys=True)
        found[name] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return found


def secrets_in(config: ClientConfig) -> list[str]:
    """Return the secrets of all servers, in every form in which a text may hold them."""
    secrets = {one for server in config.servers.values() for one in secret_values(server)}
    return [form for one in secrets for form in (one, *encoded_forms(one)) if form]


class Snapshot:
    """The lists of the servers of one configuration; failures are logged, not raised."""

    def __init__(self, config: ClientConfig, *choices: str) -> None:
        """Take a configuration; the choices are what else decides about the lists."""
        parts = [__version__, config.source or "", *choices]
        name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
        self._path = cache_folder() / "serve" / f"{name}.json"
        self._unsaved: Mapping[str, Offer] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.use(config)

    def use(self, config: ClientConfig) -> None:
        """Store what the servers of this configuration offer from now on."""
        self._secrets = secrets_in(config)
        self._fingerprints = fingerprints(config)

    def load(self) -> dict[str, Offer]:
        """Return what each server offered; nothing if it is not known."""
        from plait.serve.upstream import Offer  # noqa: PLC0415  # it imports this module's type

        try:
            found: dict[str, dict[str, Any]] = json.loads(read_own_file(self._path))
            return {
                name: Offer(**fields)
                for name, fields in found.items()
                if fields.pop(_FINGERPRINT) == self._fingerprints.get(name)
            }
        except FileNotFoundError:
            return {}
        except PermissionError as error:
            logger.warning("%s", error)
            return {}
        except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
            logger.debug("%s cannot be used: %s", self._path, type(error).__name__)
            return {}

    def save(self, offers: Mapping[str, Offer]) -> None:
        """Write what each server offers, a moment later: at the start much changes at once."""
        self._unsaved = offers
        if self._timer is None:
            loop = asyncio.get_running_loop()

            def write_in_thread() -> None:
                self._timer = None
                loop.run_in_executor(None, self.write)

            self._timer = loop.call_later(SAVE_SECONDS, write_in_thread)

    def write(self) -> None:
        """Write what is not stored yet, unless a secret of the configuration is in it."""
        offers, self._unsaved = self._unsaved, None
        if offers is None:
            return
        data = {
            name: {
                _FINGERPRINT: self._fingerprints.get(name),
                "tools": offer.tools,
                "prompts": offer.prompts,
                "resources": offer.resources,
                "resource_templates": offer.resource_templates,
                "instructions": offer.instructions,
            }
            for name, offer in tuple(offers.items())
        }
        try:
            text = json.dumps(data, ensure_ascii=False)
            if any(secret in text for secret in self._secrets):
                logger.debug("the lists hold a secret, and are not stored")
                return
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(self._path, text, mode=0o600)
        except (OSError, ValueError) as error:
            logger.debug("%s cannot be stored: %s", self._path, error)
