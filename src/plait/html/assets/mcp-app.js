"use strict";
// JSON-RPC with the host around this frame: https://modelcontextprotocol.io/specification/draft/extensions/apps
(() => {
  const waiting = new Map();
  let last = 0;
  const send = (message) => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
  function request(method, params) {
    last += 1;
    send({ id: last, method, params });
    return new Promise((done, fail) => waiting.set(last, { done, fail }));
  }
  function theme(context) {
    if (context?.theme === "dark" || context?.theme === "light") document.documentElement.dataset.theme = context.theme;
  }
  function resized() {
    const { scrollWidth: width, scrollHeight: height } = document.documentElement;
    send({ method: "ui/notifications/size-changed", params: { width, height } });
  }
  function say(text) {
    const line = document.createElement("pre");
    line.className = "text";
    line.textContent = text;
    document.querySelector("main").replaceChildren(line);
    resized();
  }
  async function show(result) {
    const text = (result.content ?? []).map((block) => block.text ?? "").join("\n");
    const session = result.structuredContent?.session_id;
    if (!session) { say(text); return; }
    try {
      const uri = `reasoning://sessions/${encodeURIComponent(session)}/html`;
      const reply = await request("resources/read", { uri });
      const fresh = new DOMParser().parseFromString(reply.contents[0].text, "text/html");
      document.querySelector("main").replaceWith(fresh.querySelector("main"));
      dispatchEvent(new Event("plait:replaced"));
      resized();
    } catch { say(text); }
  }
  addEventListener("message", (event) => {
    const message = event.data;
    if (event.source !== parent || message?.jsonrpc !== "2.0") return;
    if (message.id !== undefined && message.method === undefined) {
      const { done, fail } = waiting.get(message.id) ?? {};
      waiting.delete(message.id);
      if (message.error) fail?.(new Error(message.error.message));
      else done?.(message.result);
    } else if (message.method === "ui/notifications/tool-result") show(message.params ?? {});
    else if (message.method === "ui/notifications/host-context-changed") theme(message.params);
    else if (message.id !== undefined) send({ id: message.id, result: {} }); // ping, teardown
  });
  if (parent === window) return;
  request("ui/initialize", {
    protocolVersion: "2026-01-26", appCapabilities: {}, appInfo: { name: "plait-reasoning", version: "1" },
  }).then((result) => {
    theme(result?.hostContext);
    send({ method: "ui/notifications/initialized" });
    resized();
  }, () => { /* the host does not know apps */ });
})();
