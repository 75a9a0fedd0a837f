from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Body, FastAPI, Header, Request
from fastapi.responses import JSONResponse
from fastapi.testclient import TestClient
from langchain.agents import create_agent

from plait import MultiServerMCPClient
from plait.testing import ScriptedChatModel, fault_server, tool_call

MODEL = ScriptedChatModel([[tool_call("headers")], "done"] * 2)  # or "anthropic:…", "openai:…"


def headers_of(run: Mapping[str, Any]) -> dict[str, str]:
    return {"X-User": run["configurable"]["user"]}  # a token of the user, in real life


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    servers = {"api": {"url": app.state.url, "headers": headers_of}}
    async with MultiServerMCPClient(servers) as client:  # one for all requests of this worker
        app.state.client = client
        yield  # leaving it closes every connection, and ends the programs it started


app = FastAPI(lifespan=lifespan)


@app.post("/ask")
async def ask(
    request: Request, text: Annotated[str, Body(embed=True)], x_user: Annotated[str, Header()]
) -> Any:
    run: Any = {"configurable": {"user": x_user}}
    client: MultiServerMCPClient = request.app.state.client
    agent = create_agent(MODEL, await client.get_tools(include="headers", config=run))
    state: Any = await agent.ainvoke({"messages": [{"role": "user", "content": text}]}, run)
    return state["messages"][2].artifact["structured_content"]["x-user"]


@app.get("/health")
async def health(request: Request) -> JSONResponse:
    status = request.app.state.client.status()
    return JSONResponse(status.summary, 503 if status.failures else 200)


with fault_server("http") as server:  # in real life: uvicorn web_app:app --workers 4
    app.state.url = server.url
    with TestClient(app) as http:
        for user in ("ada", "bob"):
            answer = http.post("/ask", json={"text": "Who am I?"}, headers={"X-User": user})
            print(user, "is", answer.json())
        healthy = http.get("/health")
        print(healthy.status_code, healthy.json())
