"use strict";
(() => {
  const HEADER = { "X-Plait-View": "1" };
  const EVERY_MS = 500;
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
  const parsed = (html) => new DOMParser().parseFromString(html, "text/html");

  // The token is in the fragment of the address, which browsers do not send.
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  const signIn = document.getElementById("sign-in");
  if (token) history.replaceState(null, "", location.pathname + location.search);
  if (token && signIn) {
    fetch("/sign-in", { method: "POST", headers: HEADER, body: token }).then(async (reply) => {
      if (reply.ok) location.reload();
      else signIn.textContent = await reply.text();
    });
  }
  if (signIn) return;

  // Questions of servers and agents: a dock on every page, a list on the page of the inbox
  const inboxLink = document.querySelector(".top nav a[href='/inbox']");
  const inbox = document.getElementById("inbox") ?? Object.assign(document.createElement("aside"), { id: "inbox", className: "dock" });
  if (!inbox.isConnected) document.body.append(inbox);
  inbox.setAttribute("aria-live", "polite");
  async function followInbox() {
    for (let tag = ""; ;) {
      try {
        const reply = await fetch("/inbox/questions", { headers: { "If-None-Match": tag } });
        if (reply.status === 200) {
          tag = reply.headers.get("ETag");
          const fresh = [...parsed(await reply.text()).body.children];
          for (const old of [...inbox.children]) if (!fresh.some((one) => one.id === old.id)) old.remove();
          for (const one of fresh) if (!document.getElementById(one.id)) inbox.append(one);
          inboxLink.dataset.waiting = fresh.length || "";
        }
      } catch { /* the viewer has ended */ }
      await pause(document.hidden ? 10 * EVERY_MS : EVERY_MS);
    }
  }
  if (inboxLink) followInbox();

  for (const link of all(".top nav a")) {
    if (location.pathname === link.pathname || location.pathname.startsWith(`${link.pathname}/`)) link.setAttribute("aria-current", "page");
  }
  if (location.pathname === "/compare") document.querySelector(".top nav a")?.setAttribute("aria-current", "page");

  // A run that goes on, or is long: steps are laid out in chunks, when they come into view
  function merge(news, list) {
    const items = [...parsed(news.html).body.children];
    for (let start = 0; start < items.length; start += 100) {
      if (items.length > 100 || (list.lastElementChild?.childElementCount ?? 0) >= 100) {
        list.append(Object.assign(document.createElement("div"), { className: "chunk" }));
      }
      const part = items.slice(start, start + 100).map((item) => item.outerHTML).join("");
      window.plait.merge(part, news.total, list);
    }
  }
  async function followRun(list) {
    const number = (item) => Number(item.id.match(/^e(\d+)$/)?.[1] ?? -1);
    let last = Math.max(-1, ...all("[data-item]", list).map(number));
    for (let more = true; ;) {
      await pause(more ? 0 : document.hidden ? 5 * EVERY_MS : EVERY_MS);
      more = false;
      let news;
      try { news = await (await fetch(`${list.dataset.live}?after=${last}`)).json(); } catch { continue; }
      if (!news.html && !news.head) continue;
      const isAtEnd = innerHeight + scrollY > document.body.scrollHeight - 80;
      last = news.last;
      more = news.more;
      document.getElementById("partial")?.remove();
      merge(news, list);
      const head = document.querySelector(".run-head");
      const picture = news.overview && parsed(news.overview).querySelector(".overview");
      if (picture) document.querySelector(".zoomable > .overview")?.replaceWith(picture);
      const fresh = parsed(news.head).body.firstElementChild;
      if (head && fresh) head.replaceWith(fresh);
      if (isAtEnd && !more) scrollTo({ top: document.body.scrollHeight });
      if (news.ended) return;
    }
  }

  // Other pages are replaced when they have changed; what was entered and unfolded stays.
  // Forms of several tools have fields of the same names: a key begins with the part that holds it.
  const partOf = (element) => element.closest("[id]")?.id ?? "";
  const keyOf = (field) => [partOf(field), field.name, field.dataset.filter ?? field.dataset.filterMin ?? "", field.type === "radio" || field.type === "checkbox" ? field.value : ""].join("|");
  const foldOf = (part) => part.id || `${partOf(part)}|${part.firstElementChild?.textContent}`;
  const fields = (from) => all("input:not([type=range]), select, textarea", from);
  function replace(old, fresh) {
    const kept = new Map(fields(old).map((field) => [keyOf(field), field]));
    const open = new Set(all("details[open]", old).map(foldOf));
    const focused = old.contains(document.activeElement) ? keyOf(document.activeElement) : null;
    const scrolled = all(".wide, .graph", old).map((part) => [part.scrollLeft, part.scrollTop]);
    for (const field of fields(fresh)) {
      const before = kept.get(keyOf(field));
      if (before) { field.value = before.value; field.checked = before.checked; }
    }
    for (const part of all("details", fresh)) if (open.has(foldOf(part))) part.open = true;
    const outcomes = new Map(all(".call-form > .outcome", old).map((part) => [partOf(part), part]));
    for (const part of all(".call-form > .outcome", fresh)) part.replaceWith(outcomes.get(partOf(part)) ?? part);
    old.replaceWith(fresh);
    beat();
    choose();
    all(".wide, .graph", fresh).forEach((part, at) => { [part.scrollLeft, part.scrollTop] = scrolled[at] ?? [0, 0]; });
    if (focused) fields(fresh).find((field) => keyOf(field) === focused)?.focus({ preventScroll: true });
    for (const field of all("[data-filter]", fresh)) if (field.value) field.dispatchEvent(new Event("input", { bubbles: true }));
  }
  async function followPage(tag) {
    const parts = new Map(all("[data-part]").map((part) => [part.id, part.outerHTML]));
    for (;;) {
      await pause(document.hidden ? 5 * EVERY_MS : EVERY_MS);
      let reply;
      try { reply = await fetch(location.pathname + location.search, { headers: { "If-None-Match": tag } }); } catch { continue; }
      if (reply.status !== 200) continue;
      tag = reply.headers.get("ETag");
      const fresh = parsed(await reply.text());
      if (parts.size) {
        for (const part of all("[data-part]", fresh)) {
          if (parts.get(part.id) === part.outerHTML) continue;
          parts.set(part.id, part.outerHTML);
          const old = document.getElementById(part.id);
          while (document.querySelector("button:active")) await pause(50); // a click would be lost
          if (old) { replace(old, part); }
        }
      } else {
        replace(document.querySelector("main"), fresh.querySelector("main"));
        dispatchEvent(new Event("plait:replaced"));
      }
    }
  }
  // Heartbeats move on with the time
  function beat() {
    const now = Date.now() / 1000;
    for (const strip of all(".beats")) {
      const { base, seconds } = strip.dataset;
      strip.setAttribute("viewBox", `${(now - base - seconds).toFixed(2)} 0 ${seconds} 10`);
    }
  }
  if (document.querySelector(".tiles")) setInterval(beat, EVERY_MS);
  beat();

  // Of the tools of a server, the one in the address is shown.
  function choose() {
    const cards = all(".use .a-tool");
    const name = location.hash.slice(1);
    let wanted = name;
    try { wanted = decodeURIComponent(name); } catch { /* a tool of the user, not of this page */ }
    const card = cards.find((one) => one.id === wanted) ?? cards[0];
    for (const one of cards) one.hidden = one !== card;
    for (const link of all(".chooser a")) link.toggleAttribute("aria-current", decodeURIComponent(link.hash.slice(1)) === card?.id);
  }
  addEventListener("hashchange", () => {
    choose();
    if (innerWidth < 900) document.querySelector(".use .a-tool:not([hidden])")?.scrollIntoView({ block: "start" });
  });
  choose();

  const run = document.querySelector("[data-live]");
  const mark = document.querySelector("[data-follow]");
  if (run) followRun(run);
  else if (mark) followPage(mark.dataset.follow);

  // Calls of tools, and other actions
  async function post(address, body) {
    try {
      const reply = await fetch(address, { method: "POST", headers: { ...HEADER, "Content-Type": "application/json" }, body: JSON.stringify(body) });
      return parsed(await reply.text()).body;
    } catch (error) {
      return Object.assign(document.createElement("p"), { className: "warning", textContent: `not sent: ${error.message}` });
    }
  }
  async function call(form, more = {}) {
    const buttons = all("button", form);
    const entered = new FormData(form); // of boxes that are checked, a line for each
    const fields = Object.fromEntries([...entered.keys()].map((name) => [name, entered.getAll(name).join("\n")]));
    const body = { ...JSON.parse(form.dataset.target), ...fields, ...more };
    for (const button of buttons) button.disabled = true;
    const part = partOf(form);
    form.querySelector(".outcome").textContent = "calling …";
    const answer = await post(form.dataset.call, body);
    const now = form.isConnected ? form : document.getElementById(part)?.querySelector("form"); // it may be replaced
    now?.querySelector(".outcome").replaceChildren(...answer.childNodes.length ? answer.childNodes : [answer]);
    for (const button of all("button", now ?? form)) button.disabled = false;
    const copied = now?.querySelector(".outcome > [data-copied]");
    if (copied) navigator.clipboard?.writeText(copied.textContent).catch(() => { /* it is shown */ });
  }
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("[data-call]");
    if (form) {
      event.preventDefault();
      const { name, value } = event.submitter ?? {};
      call(form, name ? { [name]: value } : {});
      return;
    }
    const chosen = all("input[name=run]:checked", event.target);
    if (event.target.method === "get" && chosen.length !== 2) {
      event.preventDefault();
      const button = document.querySelector(".compare");
      if (button) button.textContent = "Select exactly two runs";
    }
  });
  document.addEventListener("click", async (event) => {
    const approve = event.target.closest("[data-approve]");
    if (approve) { call(approve.closest("form"), { approve: approve.dataset.approve }); return; }
    const button = event.target.closest("[data-post]");
    if (!button) return;
    button.disabled = true;
    const answer = await post(button.dataset.post, JSON.parse(button.dataset.target ?? "{}"));
    const into = document.getElementById(button.dataset.into);
    if (into) into.replaceChildren(...answer.childNodes);
    button.disabled = false;
  });
})();
