"""The backend without a model: the model that calls the tools writes the thoughts itself."""

from __future__ import annotations

from plait.errors import HostHasNoModelError
from plait.reasoning.backends.port import Completion, Prompt


class HostCompleter:
    """Completes nothing; modes see its name and ask the caller for what a model would write."""

    name = "host"

    def describe(self) -> str:
        """Say who thinks."""
        return "the calling model writes the thoughts"

    async def open(self) -> None:
        """Do nothing."""

    async def complete(self, prompt: Prompt) -> Completion:
        """Refuse: there is no model.

        Raises:
            HostHasNoModelError: Always.
        """
        raise HostHasNoModelError(
            f"no model can be asked for {prompt.pipe!r}: the backend is host, "
            "so the caller supplies the thoughts"
        )

    async def aclose(self) -> None:
        """Do nothing."""
