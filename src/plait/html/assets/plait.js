"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const kept = { // pages of a file may have no storage
    get(name) { try { return localStorage.getItem(`plait.${name}`); } catch { return null; } },
    set(name, value) { try { localStorage.setItem(`plait.${name}`, value); } catch { /* not kept */ } },
  };

  // Dark and light
  const theme = kept.get("theme");
  if (theme === "dark" || theme === "light") root.dataset.theme = theme;
  function toggleTheme() {
    const isDark = root.dataset.theme
      ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    kept.set("theme", root.dataset.theme);
  }

  // Filters: a list has items with data-NAME; values of one filter are separated by line breaks.
  const scopeOf = (element) => element.closest("section") ?? document;
  const own = (selector, scope) => all(selector, scope).filter((element) => scopeOf(element) === scope);
  function matches(item, filters) {
    for (const filter of filters) {
      const wanted = filter.value.trim().toLowerCase();
      if (!wanted) continue;
      const { filter: name, filterMin: least } = filter.dataset;
      if (least !== undefined) {
        if (Number(item.dataset[least] ?? 0) < Number(wanted)) return false;
      } else if (name === "text") {
        if (!item.textContent.toLowerCase().includes(wanted)) return false;
      } else if (!(item.dataset[name] ?? "").toLowerCase().split("\n").includes(wanted)) return false;
    }
    return true;
  }
  function applyFilters(scope) {
    const filters = own("[data-filter], [data-filter-min]", scope);
    let count = 0;
    for (const item of own("[data-item]", scope)) {
      item.hidden = !matches(item, filters);
      if (!item.hidden) count += 1;
    }
    for (const label of own("[data-count]", scope)) {
      label.textContent = `${count.toLocaleString("en")} ${label.dataset.count}${count === 1 ? "" : "s"}`;
    }
  }
  let waiting = 0;
  document.addEventListener("input", (event) => {
    if (!event.target.matches("[data-filter], [data-filter-min]")) return;
    clearTimeout(waiting);
    waiting = setTimeout(applyFilters, 120, scopeOf(event.target));
  });

  // Steps: the one with the keyboard, folding, links to one of them
  let here = null;
  function go(item, { scroll = true } = {}) {
    here?.classList.remove("here");
    here = item;
    item.classList.add("here");
    item.focus({ preventScroll: true });
    if (scroll) item.scrollIntoView({ block: "nearest" });
    try { if (item.id) history.replaceState(null, "", `#${item.id}`); } catch { /* a frame without an address */ }
  }
  function move(distance) {
    const items = all("[data-item]").filter((item) => !item.hidden && item.checkVisibility());
    const at = items.indexOf(here);
    const next = items[at < 0 ? 0 : Math.min(items.length - 1, Math.max(0, at + distance))];
    if (next) go(next);
  }
  function fold(item) {
    if (item.tagName === "DETAILS") { item.open = !item.open; return; }
    item.classList.toggle("open");
    const parts = all(".body > details, :scope > td details", item);
    const open = parts.some((part) => !part.open);
    for (const part of parts) part.open = open;
    item.querySelector("td a[href], :scope > a[href]")?.click();
  }
  function foldAll(button) {
    const scope = scopeOf(button);
    const open = button.textContent.startsWith("Unfold");
    button.textContent = open ? "Fold all" : "Unfold all";
    for (const part of all(".step .body > details", scope)) part.open = open;
    for (const item of all(".step", scope)) item.classList.toggle("open", open);
  }
  function reveal() {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    const item = target.closest("[data-item]");
    item?.classList.add("open");
    (item ?? target).scrollIntoView({ block: "start" });
    if (item) { here?.classList.remove("here"); here = item; item.classList.add("here"); }
  }
  addEventListener("hashchange", reveal);

  // Long texts that the viewer sends on request
  document.addEventListener("toggle", async (event) => {
    const part = event.target;
    if (!part.open || !part.dataset?.src) return;
    const address = part.dataset.src;
    delete part.dataset.src;
    const reply = await fetch(address, { credentials: "same-origin" });
    const text = reply.ok ? await reply.text() : `not available (${reply.status})`;
    const pieces = text.match(/[^]{1,8000}/g) ?? [];
    part.querySelector("pre").replaceChildren(...pieces.map((piece) =>
      Object.assign(document.createElement("span"), { className: "piece", textContent: piece })));
  }, true);

  const actions = { theme: toggleTheme, help: () => document.getElementById("help").showModal(), fold: foldAll };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do]");
    if (button) actions[button.dataset.do]?.(button);
    else if (event.target.id === "help") event.target.close();
    const row = event.target.closest(".row");
    const run = row?.closest(".run");
    if (run?.querySelector(".switch [value=w]")?.checked && !event.target.closest("a")) row.parentElement.classList.toggle("open");
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input:not([type=radio], [type=checkbox]), select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const keys = {
      j: () => move(1), k: () => move(-1), d: toggleTheme, "?": actions.help,
      o: () => here && fold(here), Enter: () => here && event.target === here && fold(here),
      "/": () => { event.preventDefault(); document.querySelector("input[type=search]")?.focus(); },
      v: () => document.querySelector(".switch input:not(:checked)")?.click(),
    };
    keys[event.key]?.();
  });
  for (const choice of all(".switch input")) choice.addEventListener("change", () => kept.set("view", choice.value));
  if (kept.get("view") === "w") all(".switch [value=w]").forEach((choice) => { choice.checked = true; });
  addEventListener("beforeprint", () => all(".step .body > details").forEach((part) => { part.open = true; }));
  reveal();

  // Steps of a run that goes on: `html` has articles, `total` is the length of the axis in seconds.
  window.plait = {
    merge(html, total, list = document.querySelector("[data-live]")) {
      const template = document.createElement("template");
      template.innerHTML = html;
      const chunk = list.lastElementChild ?? list.appendChild(Object.assign(document.createElement("div"), { className: "chunk" }));
      for (const item of [...template.content.children]) {
        const old = document.getElementById(item.id);
        if (!old) { chunk.append(item); continue; }
        item.classList.toggle("open", old.classList.contains("open"));
        const open = new Set(all("details[open]", old).map((part) => part.id || part.firstElementChild.textContent));
        for (const part of all("details", item)) if (open.has(part.id || part.firstElementChild.textContent)) part.open = true;
        old.replaceWith(item);
        if (here === old) here = item;
      }
      if (Number(list.dataset.total) !== Number(total)) {
        list.dataset.total = total;
        for (const bar of all(".bar", list)) bar.setAttribute("viewBox", `0 0 ${total} 10`);
      }
      clearTimeout(waiting);
      waiting = setTimeout(applyFilters, 0, scopeOf(list));
    },
  };
})();
