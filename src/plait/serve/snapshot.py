"""What the servers offered when they were last seen, on disk, so that a client need not wait."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plait._support.files import write_atomically
from plait._support.redact import encoded_forms
from plait._version import __version__
from plait.client.catalog.listing import cache_folder
from plait.client.config.secrets import secret_values

if TYPE_CHECKING:
    from plait.client.config.read import ClientConfig
    from plait.serve.upstream import Offer

logger = logging.getLogger("plait.serve")

MAX_SNAPSHOT_BYTES = 64_000_000
"""A larger file is not read: reading it would take longer than asking the servers."""
_OTHERS_MAY_WRITE = 0o022


class Snapshot:
    """The lists of the servers of one configuration; failures are logged, not raised."""

    def __init__(self, path: Path, secrets: Iterable[str] = ()) -> None:
        self._path = path
        self._secrets = [form for one in secrets for form in (one, *encoded_forms(one)) if form]

    @classmethod
    def of(cls, config: ClientConfig, *choices: str) -> Snapshot:
        """Return that of a configuration; the choices are what else decides about the lists."""
        parts = [__version__, config.source or "", *choices]
        if config.source is not None:
            try:
                parts.append(hashlib.sha256(Path(config.source).read_bytes()).hexdigest())
            except OSError as error:
                logger.debug("%s cannot be read: %s", config.source, error)
        name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
        secrets = {one for server in config.servers.values() for one in secret_values(server)}
        return cls(cache_folder() / "serve" / f"{name}.json", secrets)

    def load(self) -> dict[str, Offer]:
        """Return what each server offered; nothing if it is not known."""
        from plait.serve.upstream import Offer  # noqa: PLC0415  # it imports this module's type

        try:
            with self._path.open("rb") as file:
                facts = os.fstat(file.fileno())
                if facts.st_size > MAX_SNAPSHOT_BYTES:
                    return {}
                if os.name == "posix" and (
                    facts.st_mode & _OTHERS_MAY_WRITE or facts.st_uid != os.getuid()
                ):
                    logger.warning("%s is writable by others, and is not used", self._path)
                    return {}
                found: dict[str, dict[str, Any]] = json.loads(file.read())
            return {name: Offer(**fields) for name, fields in found.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError) as error:
            logger.debug("%s cannot be used: %s", self._path, type(error).__name__)
            return {}

    def save(self, offers: Mapping[str, Offer]) -> None:
        """Write what each server offers, unless a secret of the configuration is in it."""
        data = {
            name: {
                "tools": offer.tools,
                "prompts": offer.prompts,
                "resources": offer.resources,
                "resource_templates": offer.resource_templates,
                "instructions": offer.instructions,
            }
            for name, offer in offers.items()
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
