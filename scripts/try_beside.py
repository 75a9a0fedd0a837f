"""Install the wheel in dist/ beside packages that use MCP, each in a new environment: [NAME,…].

Run by `make test-beside`. What is installed beside plait brings the version of the MCP SDK that it
wants, or none, and plait must work with that.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UV = Path(sys.executable).with_name("uv")
BESIDE: dict[str, tuple[str, list[str]]] = {
    "nothing": ("", []),
    "mcp-1": ("langchain", ["mcp<2"]),
    "mcp-2": ("langchain", ["mcp>=2.3,<3"]),
    "langchain-mcp-adapters": ("langchain", ["langchain-mcp-adapters==0.3.2"]),
    "claude-agent-sdk": ("", ["claude-agent-sdk==0.2.182", "mcp<2"]),
    "crewai": ("langchain", ["crewai==1.15.30", "mcp<2"]),
}
"""The extra of plait, and what is installed with it."""
PROGRAMS = {"nothing": "beside_no_sdk.py", "claude-agent-sdk": "beside_claude.py"}
"""What is run there, if it is not the usual program."""


def main() -> None:
    """Try each environment, and end with 1 if plait does not work in one."""
    [wheel] = (ROOT / "dist").glob("*.whl")
    names = sys.argv[1].split(",") if sys.argv[1:] else list(BESIDE)
    failed = [name for name in names if not works(wheel, name)]
    print(f"plait works beside {len(names) - len(failed)} of {len(names)}")
    if failed:
        sys.exit(f"It does not beside: {', '.join(failed)}")


def works(wheel: Path, name: str) -> bool:
    """Install, check that every package has what it needs, and use plait in an empty folder."""
    extra, beside = BESIDE[name]
    with tempfile.TemporaryDirectory(prefix=f"plait-beside-{name}-") as folder:
        python = Path(folder, "venv", "bin", "python")
        at = ["--python", str(python)]
        wanted = f"{wheel}[{extra}]" if extra else str(wheel)
        program = ROOT / "scripts" / PROGRAMS.get(name, "beside_sdk.py")
        for step in (
            [str(UV), "venv", "--quiet", "--python", sys.executable, str(python.parents[1])],
            [str(UV), "pip", "install", "--quiet", *at, wanted, *beside],
            [str(UV), "pip", "check", "--quiet", *at],
            [str(python), str(program), str(ROOT / ".venv" / "bin" / "python")],
        ):
            done = subprocess.run(
                step, cwd=folder, capture_output=True, text=True, check=False, timeout=600
            )
            if done.returncode:
                print(f"{name}: failed\n{done.stdout}{done.stderr}", flush=True)
                return False
        listed = [str(UV), "pip", "list", *at, "--format", "json"]
        packages = json.loads(subprocess.check_output(listed, text=True))
    versions = {package["name"]: package["version"] for package in packages}
    print(f"{name}: works (mcp {versions.get('mcp', 'not installed')})", flush=True)
    return True


main()
