"""Run the programs of docs/how-to/other-frameworks.md, each with its framework: [NAME,…].

Run by `make test-frameworks`. The model is a stand-in for OpenAI's API on this machine; `plait
serve`, the server behind it and the framework are real.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from plait import Toolbox
from plait.testing import Call, OpenAIServer, Say

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "docs" / "examples" / "frameworks"
BIN = Path(sys.executable).parent
QUESTION = "What time is it in Berlin?"
ANSWER = "It is noon in Berlin."

FRAMEWORKS: dict[str, list[str]] = {
    "openai_agents": ["openai-agents==0.24.0"],
    "pydantic_ai_agent": ["pydantic-ai-slim[mcp,openai]==2.68.0"],
    "crewai_agent": ["crewai==1.15.30", "mcp<2"],
    "llama_index_agent": [
        "llama-index-core==0.14.25",
        "llama-index-llms-openai==0.8.3",
        "llama-index-tools-mcp==0.6.0",
    ],
}
"""What each program needs."""


def main() -> None:
    """Try each program, and end with 1 if one does not get its answer."""
    names = sys.argv[1].split(",") if sys.argv[1:] else list(FRAMEWORKS)
    failed = [name for name in names if not works(name)]
    print(f"{len(names) - len(failed)} of {len(names)} programs work")
    if failed:
        sys.exit(f"These do not: {', '.join(failed)}")


def works(name: str) -> bool:
    """Install a framework, run its program, and look at what the model got."""
    with tempfile.TemporaryDirectory(prefix=f"plait-{name}-") as folder:
        work = Path(folder)
        shutil.copy(EXAMPLES / f"{name}.py", work)
        # The page has `uvx mcp-server-time`; this environment has it installed.
        (work / "mcp.json").write_text('{"mcpServers": {"time": {"command": "mcp-server-time"}}}')
        uv = [str(BIN / "uv")]
        python = work / "venv" / "bin" / "python"
        at = ["--quiet", "--python", str(python)]
        subprocess.run([*uv, "venv", "--quiet", "-p", sys.executable, work / "venv"], check=True)
        subprocess.run([*uv, "pip", "install", *at, *FRAMEWORKS[name]], check=True)
        with OpenAIServer(look_at_the_clock, models=["gpt-5-mini"]) as api:
            environment = {
                **os.environ,
                "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
                "HOME": folder,
                "OPENAI_BASE_URL": api.base_url,
                "OPENAI_API_BASE": api.base_url,  # LlamaIndex
                "OPENAI_API_KEY": "key",
                "OPENAI_AGENTS_DISABLE_TRACING": "1",
                "CREWAI_DISABLE_TELEMETRY": "true",
            }
            asyncio.run(fill_the_list(environment, work))
            done = subprocess.run(
                [str(python), f"{name}.py"],
                cwd=work,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
            called = any('"day_of_week' in str(body).replace("\\", "") for body in api.bodies)
        if done.returncode or ANSWER not in done.stdout or not called:
            print(f"{name}: failed\n{done.stdout}{done.stderr}", flush=True)
            return False
    print(f"{name}: called the tool, and has its answer", flush=True)
    return True


def look_at_the_clock(body: dict[str, object]) -> Say:
    """Call the tool of the time server under the name that the framework gives it, then answer."""
    text = str(body)
    if "day_of_week" in text:
        return Say(ANSWER)
    tools = body["tools"]
    assert isinstance(tools, list)
    names = [tool.get("name") or tool["function"]["name"] for tool in tools]
    [name] = [name for name in names if "get_current_time" in name]
    return Say(calls=(Call(name, {"timezone": "Europe/Berlin"}),))


async def fill_the_list(environment: dict[str, str], work: Path) -> None:
    """Let `plait serve` list its servers once, as after a first start that took its time."""
    entry = {"command": "plait", "args": ["serve", "--config", "mcp.json"]}
    # What make adds to the environment is inherited: as `env`, its "${" would be variables.
    own = {name: value for name, value in environment.items() if os.environ.get(name) != value}
    served = {"plait": {**entry, "cwd": str(work), "inherit_env": True, "env": own}}
    changed = asyncio.Event()
    client = Toolbox(served, on_tools_list_changed=lambda *_: changed.set())
    async with client as box, asyncio.timeout(60):
        if not await box.tools():
            await changed.wait()


if __name__ == "__main__":
    main()
