"""Use `plait serve` with the clients that people have: [NAME,…].

Run by `make test-clients`. Each client lists tools and calls some, before and after the server
behind is killed, between two calls and during one. Agents get a scripted model on this machine.
The clients are in .clients, a gigabyte; nothing but the registries is contacted.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from plait.serve.journal import read_states, state_folder
from plait.testing import AnthropicServer, Call, OpenAIServer, Say, ServerProcess, stdio_config

ROOT = Path(__file__).resolve().parents[1]
CLIENTS = ROOT / ".clients"
BIN = CLIENTS / "node" / "node_modules" / ".bin"
PROGRAMS = ROOT / "scripts" / "clients"
READY = r"serving (?P<url>http://\S+)"
MAX_CLIENT_SECONDS = 120

EXPECTED = ["after the kill", "value of k", "after the end"]


class Place:
    """A folder for one client, with a configuration and a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "state").mkdir(parents=True)
        entry = stdio_config(state_dir=folder / "state")
        self.config = folder / "mcp.json"
        self.config.write_text(json.dumps({"mcpServers": {"faults": entry}}))
        self.command = [sys.executable, "-m", "plait", "serve", "--config", str(self.config)]
        paths = [str(Path(sys.executable).parent), os.environ["PATH"]]
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("ANTHROPIC", "OPENAI", "CLAUDE", "CODEX", "OPENCODE", "XDG_"))
        }
        self.env = {**kept, "HOME": str(folder), "PWD": str(folder), "PATH": os.pathsep.join(paths)}

    def run(self, *line: str | Path, **env: str) -> str:
        """Run a client, and return what it printed.

        Raises:
            RuntimeError: It failed.
        """
        done = subprocess.run(
            [str(word) for word in line],
            cwd=self.folder,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=MAX_CLIENT_SECONDS,
        )
        if done.returncode:
            raise RuntimeError(f"exit code {done.returncode}\n{done.stdout}{done.stderr}"[-4000:])
        return done.stdout

    def kill_server(self) -> None:
        """Kill the server behind, whose process `plait serve` tells."""
        folder = state_folder({"XDG_STATE_HOME": str(self.folder / ".local" / "state")})
        ends = time.monotonic() + MAX_CLIENT_SECONDS
        while time.monotonic() < ends:
            clients = [client for state in read_states(folder) for client in state["clients"]]
            pids = [server["pid"] for client in clients for server in client["servers"]]
            if any(pids):
                for pid in filter(None, pids):
                    os.kill(pid, signal.SIGKILL)
                return
            time.sleep(0.1)
        raise RuntimeError("plait serve tells no process of its server")

    def warm_up(self) -> None:
        """List once: a server that was never seen may take longer than clients wait for it."""
        words = json.dumps(self.command)
        listing = f"""
import anyio, json, os
from mcp import Client, StdioServerParameters

async def main():
    command, *words = json.loads({words!r})
    server = StdioServerParameters(command=command, args=words, env=dict(os.environ))
    async with Client(server) as client:
        while not (await client.list_tools()).tools:
            await anyio.sleep(0.1)

anyio.run(main)
"""
        self.run(sys.executable, "-c", listing)

    def serving(self) -> ServerProcess:
        """Serve over HTTP, for clients that start anew for each request."""
        return ServerProcess([*self.command, "--http", "127.0.0.1:0"], ready=READY, env=self.env)


class Agent:
    """The script of a model: it calls tools by what the request offers, and kills the server."""

    def __init__(self, kill: Callable[[], None]) -> None:
        self._kill = kill
        self.names: list[str] = []
        self.texts: list[str] = []
        self._turn = 0

    def __call__(self, body: Mapping[str, Any]) -> str | Say:
        """Return the next turn; requests without our tools, such as for a title, get a text."""
        names = self._names_in(body)
        if "echo" not in names:
            return "a title"
        self.names = [*names.values()]
        results = _result_texts(body)
        steps: list[tuple[str, dict[str, Any]]] = [
            ("pid", {}),
            ("echo", {"text": EXPECTED[0]}),
            ("get_and_die", {"key": "k"}),
            ("echo", {"text": EXPECTED[2]}),
        ]
        done = len(results)
        self.texts = results
        if done == 1 and self._turn == 1:
            self._kill()
        self._turn = done + 1
        if done >= len(steps):
            return "done"
        tool, arguments = steps[done]
        return Say(calls=(Call(names[tool], arguments),))

    @staticmethod
    def _names_in(body: Mapping[str, Any]) -> dict[str, str]:
        """Return the names for the model, by the names of the server."""
        found: dict[str, str] = {}
        listed = [tool.get("function", tool) for tool in body.get("tools") or ()]
        # Codex puts the tools of a server together.
        for group in [tool for tool in listed if "tools" in tool]:
            listed += [{"name": f"{group['name']}__{one['name']}"} for one in group["tools"]]
        for tool in listed:
            name = str(tool.get("name"))
            if "faults__" in name:
                found[name.rpartition("faults__")[2]] = name
        return found


def _result_texts(body: Mapping[str, Any]) -> list[str]:
    """Return the results of tools in a request of either API, in order."""
    texts: list[str] = []
    for message in body.get("messages") or ():
        content = message.get("content")
        if message.get("role") == "tool":
            texts.append(json.dumps(content))
        elif isinstance(content, list):
            blocks = cast("list[dict[str, Any]]", content)
            results = [block for block in blocks if block.get("type") == "tool_result"]
            texts += [json.dumps(block.get("content")) for block in results]
    return texts


def _judge(tools: Sequence[str], texts: Sequence[str]) -> str | None:
    """Return what is wrong; `None` if nothing is."""
    if not any(name.endswith("echo") for name in tools):
        return f"no tools were listed: {tools}"
    missing = [one for one in EXPECTED if not any(one in text for text in texts)]
    return f"missing {missing} in {texts}" if missing else None


def _program(place: Place, *line: str | Path) -> str | None:
    found = json.loads(place.run(*line, *place.command).strip().splitlines()[-1])
    return _judge(found["tools"], found["texts"])


def python_sdk_1(place: Place) -> str | None:
    """Use the Python SDK, version 1."""
    python = ROOT / ".legacy" / "venv" / "bin" / "python"
    return _program(place, python, PROGRAMS / "with_python.py", "sdk-1")


def python_sdk_2(place: Place) -> str | None:
    """Use the Python SDK, version 2."""
    return _program(place, sys.executable, PROGRAMS / "with_python.py", "sdk-2")


def fastmcp(place: Place) -> str | None:
    """Use FastMCP."""
    python = CLIENTS / "fastmcp" / "bin" / "python"
    return _program(place, python, PROGRAMS / "with_python.py", "fastmcp")


def typescript_sdk(place: Place) -> str | None:
    """Use the TypeScript SDK, on stdio and over HTTP."""
    # Modules are looked for beside the program.
    program = CLIENTS / "node" / "with_typescript.mjs"
    program.write_text((PROGRAMS / "with_typescript.mjs").read_text())
    if (wrong := _program(place, "node", program)) is not None:
        return wrong
    (place.folder / "state" / "reads").unlink(missing_ok=True)
    with place.serving() as server:
        found = json.loads(place.run("node", program, server.url))
        return _judge(found["tools"], found["texts"])


def inspector(place: Place) -> str | None:
    """Use the Inspector, which starts anew for each request."""
    with place.serving() as server:

        def ask(*words: str) -> str:
            return place.run(BIN / "mcp-inspector", "--cli", server.url, *words)

        def call(tool: str, *arguments: str) -> str:
            words = [word for one in arguments for word in ("--tool-arg", one)]
            return ask("--method", "tools/call", "--tool-name", f"faults__{tool}", *words)

        listed = [tool["name"] for tool in json.loads(ask("--method", "tools/list"))["tools"]]
        call("pid")  # its server goes with its session, and each request has another
        texts = [
            call("echo", f"text={EXPECTED[0]}"),
            call("get_and_die", "key=k"),
            call("echo", f"text={EXPECTED[2]}"),
        ]
    return _judge(listed, texts)


def claude_code(place: Place) -> str | None:
    """Use the command line of Claude Code."""
    servers = {"plait": {"command": place.command[0], "args": place.command[1:]}}
    file = place.folder / "claude.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    agent = Agent(place.kill_server)
    with AnthropicServer(agent, strict=False) as api:
        place.run(
            *(BIN / "claude", "-p", "go", "--model", "claude-sonnet-5"),
            *("--mcp-config", file, "--strict-mcp-config", "--allowedTools", "mcp__plait"),
            ANTHROPIC_BASE_URL=api.url,
            ANTHROPIC_API_KEY="local",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            ENABLE_TOOL_SEARCH="0",
        )
    return _judge(agent.names, agent.texts)


def codex(place: Place) -> str | None:
    """Use the command line of Codex."""
    agent = Agent(place.kill_server)
    with OpenAIServer(agent, strict=False) as api:
        home = place.folder / ".codex"
        home.mkdir()
        values = {"command": place.command[0], "args": place.command[1:]}
        table = "\n".join(f"{key} = {json.dumps(value)}" for key, value in values.items())
        (home / "config.toml").write_text(
            'model = "test-model"\nmodel_provider = "local"\napproval_policy = "never"\n'
            'sandbox_mode = "danger-full-access"\n\n[model_providers.local]\nname = "local"\n'
            f'base_url = "{api.base_url}"\nwire_api = "responses"\nenv_key = "LOCAL_KEY"\n\n'
            f"[mcp_servers.plait]\nrequired = true\nstartup_timeout_sec = 60\n{table}\n"
        )
        place.run(
            *(BIN / "codex", "exec", "--skip-git-repo-check", "go"),
            CODEX_HOME=str(home),
            LOCAL_KEY="local",
        )
    return _judge(agent.names, agent.texts)


def opencode(place: Place) -> str | None:
    """Use opencode."""
    agent = Agent(place.kill_server)
    with OpenAIServer(agent, strict=False) as api:
        options = {"baseURL": api.base_url, "apiKey": "local"}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": options,
            "models": {"test-model": {"name": "test"}},
        }
        config = {
            "autoupdate": False,
            "share": "disabled",
            "provider": {"local": provider},
            "mcp": {"plait": {"type": "local", "command": place.command, "enabled": True}},
        }
        (place.folder / "opencode.json").write_text(json.dumps(config))
        place.run(
            *(BIN / "opencode", "run", "go", "--model", "local/test-model"),
            OPENCODE_DISABLE_AUTOUPDATE="1",
            OPENCODE_DISABLE_MODELS_FETCH="1",
        )
    return _judge(agent.names, agent.texts)


USES: dict[str, Callable[[Place], str | None]] = {
    "python-sdk-1": python_sdk_1,
    "python-sdk-2": python_sdk_2,
    "fastmcp": fastmcp,
    "typescript-sdk": typescript_sdk,
    "inspector": inspector,
    "claude-code": claude_code,
    "codex": codex,
    "opencode": opencode,
}


def main() -> None:
    """Use each client, and end with 1 if one of them lost a call."""
    names = sys.argv[1].split(",") if sys.argv[1:] else list(USES)
    failed: list[str] = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix=f"plait-client-{name}-") as folder:
            began = time.monotonic()
            try:
                place = Place(Path(folder))
                place.warm_up()
                wrong = USES[name](place)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                wrong = str(error)
        seconds = time.monotonic() - began
        print(
            f"{name}: {'lists, calls and heals' if wrong is None else wrong} ({seconds:.0f} s)",
            flush=True,
        )
        failed += [name] * (wrong is not None)
    print(f"{len(names) - len(failed)} of {len(names)} clients keep their tools")
    if failed:
        sys.exit(f"these do not: {', '.join(failed)}")


if __name__ == "__main__":
    main()
