"""Makes the README of a package index: links to files of the repository do not lead anywhere there.

Run by hatchling for each build. With `base` in `[tool.hatch.metadata.hooks.custom]`, the address of
the published repository's files, relative links lead there; without one they are plain text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!https?:|#)(?P<target>[^)\s]+)\)")
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_NOTE = "\nThe pages that are named here are in the source distribution, in the folder `docs`.\n"


def index_readme(text: str, base: str = "") -> str:
    """Return a README whose links work where there are no other files."""
    if base:
        return _LINK.sub(rf"\g<image>[\g<text>]({base.rstrip('/')}/\g<target>)", text)
    plain = _LINK.sub(lambda link: "" if link["image"] else link["text"], _COMMENT.sub("", text))
    return re.sub(r"\n{3,}", "\n\n", plain) + _NOTE


def get_metadata_hook() -> type[Any]:
    """Return the hook; hatchling is there while a distribution is built."""
    from hatchling.metadata.plugin.interface import MetadataHookInterface  # noqa: PLC0415

    class IndexReadme(MetadataHookInterface):
        """Sets the long description."""

        def update(self, metadata: dict[str, Any]) -> None:
            text = Path(self.root, "README.md").read_text("utf-8")
            readme = index_readme(text, self.config.get("base", ""))
            metadata["readme"] = {"content-type": "text/markdown", "text": readme}

    return IndexReadme
