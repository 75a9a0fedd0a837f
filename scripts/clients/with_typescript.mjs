// Use a server with the TypeScript SDK: `with_typescript.mjs URL|COMMAND…`.
// Run by scripts/try_clients.py, beside its modules. Prints what it got as JSON.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [first, ...words] = process.argv.slice(2);
const transport = first.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(first))
  : new StdioClientTransport({ command: first, args: words, env: process.env });
const client = new Client({ name: "typescript", version: "1" });
await client.connect(transport);
const call = async (name, args) =>
  (await client.callTool({ name: `faults__${name}`, arguments: args })).content[0].text;
const tools = (await client.listTools()).tools.map((tool) => tool.name);
process.kill(Number(await call("pid", {})), "SIGKILL");
const texts = [
  await call("echo", { text: "after the kill" }),
  await call("get_and_die", { key: "k" }),
  await call("echo", { text: "after the end" }),
];
console.log(JSON.stringify({ tools, texts }));
await client.close();
