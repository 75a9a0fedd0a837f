// The worker of @langchain/mcp-adapters on Node; the same requests and replies as the Python workers.
// It is copied beside its node_modules, so that its imports resolve there.

import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";

const replies = process.stdout;
const WARM_UP_CALLS = 30;
const WARM_UP_SECONDS = 1;
const KILL_SECONDS = 0.05;
const HEAL_SECONDS = 10;

class Unsupported extends Error {}

const now = () => performance.now() / 1000;

function cpuSeconds() {
  const used = process.cpuUsage();
  return (used.user + used.system) / 1e6;
}

function write(reply) {
  replies.write(JSON.stringify(reply) + "\n");
}

function textOf(content) {
  if (typeof content === "string") return content;
  return content.filter((block) => block.type === "text").map((block) => block.text).join("");
}

function check(text, args) {
  if ("size" in args) {
    // JavaScript counts UTF-16 units; the server counts code points.
    const length = text.length === args.size ? text.length : [...text].length;
    if (length !== args.size) throw new Error(`got ${length} characters instead of ${args.size}`);
  } else if (text !== args.text) {
    throw new Error(`got ${text.slice(0, 80)} instead of ${args.text}`);
  }
}

function configOf(server) {
  if (server.transport === "WebSocket") throw new Unsupported("has no WebSocket transport");
  if (server.era === "modern") throw new Unsupported("speaks only the handshake of 2025-11-25");
  if (server.transport === "HTTP") return { transport: "http", url: server.url };
  const restart = { enabled: true, maxAttempts: 5, delayMs: 10 };
  return { transport: "stdio", command: server.command, args: server.args, restart };
}

async function connect(servers) {
  const { MultiServerMCPClient } = await import("@langchain/mcp-adapters");
  const mcpServers = Object.fromEntries(servers.map((server) => [server.name, configOf(server)]));
  const client = new MultiServerMCPClient({ mcpServers, useStandardContentBlocks: false });
  const tools = await client.getTools();
  return { client, tools };
}

function findTool(tools, name) {
  return tools.find((tool) => tool.name === name || tool.name.endsWith("_" + name));
}

function toolCall(tool, args) {
  return { type: "tool_call", id: "1", name: tool.name, args };
}

async function call(connection, name, args, config) {
  const tool = findTool(connection.tools, name);
  const message = await tool.invoke(toolCall(tool, args), config);
  return textOf(message.content);
}

async function repeat(work, count, seconds) {
  const limit = now() + Math.min(WARM_UP_SECONDS, seconds / 4);
  for (let i = 0; i < Math.min(WARM_UP_CALLS, count - 1); i++) {
    await work();
    if (now() > limit) break;
  }
  const samples = [];
  const end = now() + seconds;
  const cpu = cpuSeconds();
  while (samples.length < count && (!samples.length || now() < end)) {
    const began = now();
    await work();
    samples.push(now() - began);
  }
  return { samples, cpu: (cpuSeconds() - cpu) / samples.length };
}

async function throughput(work, count, seconds, atOnce) {
  const all = (caller) => Promise.all(Array.from({ length: atOnce }, caller));
  await all(work);
  const end = now() + seconds;
  let started = 0;
  const cpu = cpuSeconds();
  const began = now();
  await all(async () => {
    while (started < count && now() < end) {
      started += 1;
      await work();
    }
  });
  return { samples: [(now() - began) / started], cpu: (cpuSeconds() - cpu) / started };
}

async function graphCall(tool, args) {
  const { AIMessage } = await import("@langchain/core/messages");
  const { MemorySaver, MessagesAnnotation, START, StateGraph } = await import("@langchain/langgraph");
  const { ToolNode } = await import("@langchain/langgraph/prebuilt");
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("tools", new ToolNode([tool]))
    .addEdge(START, "tools")
    .compile({ checkpointer: new MemorySaver() });
  const request = new AIMessage({ content: "", tool_calls: [toolCall(tool, args)] });
  let thread = 0;
  return async () => {
    const config = { configurable: { thread_id: String(thread++) } };
    const state = await graph.invoke({ messages: [request] }, config);
    return textOf(state.messages.at(-1).content);
  };
}

async function listenedCall(connection, name, args) {
  const { BaseCallbackHandler } = await import("@langchain/core/callbacks/base");
  class Listener extends BaseCallbackHandler {
    name = "listener";
    ended = 0;
    handleToolStart() {}
    handleToolEnd() {
      this.ended += 1;
    }
  }
  const listener = new Listener();
  return () => call(connection, name, args, { callbacks: [listener] });
}

async function warm(request, connection) {
  const { run, tool: name, arguments: args, n, seconds } = request;
  check(await call(connection, name, args), args);
  if (run === "throughput") return throughput(() => call(connection, name, args), n, seconds, request.at_once);
  let work = () => call(connection, name, args);
  if (run === "graph") work = await graphCall(findTool(connection.tools, name), args);
  if (run === "listener") work = await listenedCall(connection, name, args);
  check(await work(), args);
  return repeat(work, n, seconds);
}

async function bind(tools) {
  const { convertToOpenAITool } = await import("@langchain/core/utils/function_calling");
  const cpu = cpuSeconds();
  const began = now();
  tools.map((tool) => convertToOpenAITool(tool));
  return { samples: [now() - began], cpu: cpuSeconds() - cpu };
}

async function catalogue([small, large], count) {
  const first = await connect([small]);
  await call(first, "echo", { text: "hello" });
  await bind(first.tools);
  await first.client.close();
  globalThis.gc();
  const before = process.memoryUsage().rss;
  const cpu = cpuSeconds();
  const began = now();
  const connection = await connect([large]);
  const tools = { samples: [now() - began], cpu: cpuSeconds() - cpu };
  if (connection.tools.length < count) throw new Error(`got ${connection.tools.length} tools`);
  const bound = await bind(connection.tools);
  globalThis.gc();
  const memory = { samples: [Math.max(0, process.memoryUsage().rss - before)], cpu: null };
  await connection.client.close();
  return { [`tools-${count}`]: tools, [`bind-${count}`]: bound, [`memory-${count}`]: memory };
}

async function heal(servers) {
  const connection = await connect(servers);
  process.kill(Number(await call(connection, "pid", {})), "SIGKILL");
  // Blocks the loop on purpose: nothing may heal before the call, only notice that it has to.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, KILL_SECONDS * 1000);
  const cpu = cpuSeconds();
  const began = now();
  const expired = new Promise((_, reject) => {
    setTimeout(() => reject(new Error("no answer in time")), HEAL_SECONDS * 1000).unref();
  });
  try {
    check(await Promise.race([call(connection, "echo", { text: "again" }), expired]), { text: "again" });
  } catch (error) {
    return { samples: [], cpu: null, lost: `${error.name}: ${error.message}`.slice(0, 200) };
  } finally {
    await connection.client.close().catch(() => {});
  }
  return { samples: [now() - began], cpu: cpuSeconds() - cpu };
}

function versions() {
  const packages = Object.keys(JSON.parse(readFileSync("package.json", "utf8")).dependencies);
  const found = { node: process.versions.node };
  for (const name of packages) {
    found[name] = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
  }
  return found;
}

const held = new Map();

async function handle(request) {
  const { run, servers } = request;
  if (run === "versions") return { versions: versions() };
  if (run === "import") {
    const cpu = cpuSeconds();
    const began = now();
    await import("@langchain/mcp-adapters");
    return { rows: { import: { samples: [now() - began], cpu: cpuSeconds() - cpu } } };
  }
  if (run === "blocking") throw new Unsupported("JavaScript has no blocking calls");
  if (run === "tools") return { rows: await catalogue(servers, request.count) };
  if (run === "heal") return { rows: { heal: await heal(servers) } };
  if (run === "cold") {
    const connection = await connect(servers);
    await call(connection, "echo" + request.suffix, { text: "hello" });
    write({ rows: { [request.row]: { samples: [0], cpu: cpuSeconds() } } });
    await connection.client.close();
    return null;
  }
  const key = JSON.stringify(servers);
  if (!held.has(key)) held.set(key, await connect(servers));
  return { rows: { [request.row]: await warm(request, held.get(key)) } };
}

for await (const line of createInterface({ input: process.stdin })) {
  let reply;
  try {
    reply = await handle(JSON.parse(line));
  } catch (error) {
    if (!(error instanceof Unsupported)) console.error(error);
    const reason = `${error.name}: ${error.message}`.slice(0, 300);
    reply = error instanceof Unsupported ? { unsupported: error.message } : { error: reason };
  }
  if (reply !== null) write(reply);
}
await Promise.allSettled([...held.values()].map(({ client }) => client.close()));
process.exit(0);
