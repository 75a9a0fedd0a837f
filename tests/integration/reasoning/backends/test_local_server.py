"""The process of a local model is closed to web pages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_server_of_a_local_model_does_not_answer_pages_of_every_origin(tmp_path: Path) -> None:
    no_model = tmp_path / "model.gguf"
    no_model.touch()

    # It reports its settings before it reads the model, which it then refuses.
    done = subprocess.run(
        [sys.executable, "-m", "plait.models.local_server", str(no_model)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert "model.gguf" in done.stderr
    assert "CORS" not in done.stderr
