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
    if (event.target.closest("[data-address]")) writeAddress();
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

  // A part of the time of a run, chosen by dragging on its overview
  const label = (seconds) => seconds < 0.1 ? `${Math.round(seconds * 1000)} ms` : seconds < 100
    ? `${seconds.toFixed(seconds < 10 ? 2 : 1)} s` : `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  function zoom(run, from = null, to = null) {
    const list = run.querySelector("[data-list]");
    const total = Number(list.dataset.total);
    list.dataset.zoom = from === null ? "" : `${from} ${to}`;
    const [start, end] = from === null ? [0, total] : [from, to];
    for (const item of list.querySelectorAll("[data-item]")) {
      const bar = item.querySelector(".bar");
      bar.setAttribute("viewBox", `${start} 0 ${end - start} 10`);
      const shape = bar.firstElementChild;
      const x = Number(shape?.getAttribute("x") ?? 0);
      const outside = from !== null && (!shape || x > end || x + Number(shape.getAttribute("width")) < start);
      item.classList.toggle("outside", outside);
    }
    all(".axis text", run).forEach((text, at, ticks) => { text.textContent = label(start + (end - start) * at / (ticks.length - 1)); });
    const picked = run.querySelector(".picked");
    if (picked) {
      picked.hidden = from === null;
      picked.style.left = `${100 * start / total}%`;
      picked.style.width = `${100 * (end - start) / total}%`;
    }
    for (const button of all("[data-do=whole]", run)) button.hidden = from === null;
  }
  let drag = null;
  document.addEventListener("pointerdown", (event) => {
    const area = event.target.closest(".zoomable");
    if (!area || event.button) return;
    drag = { area, box: area.getBoundingClientRect(), from: event.clientX };
    event.preventDefault();
  });
  const span = (event) => [drag.from, event.clientX].map((x) => Math.min(1, Math.max(0, (x - drag.box.left) / drag.box.width))).sort((a, b) => a - b);
  addEventListener("pointermove", (event) => {
    if (!drag) return;
    const [from, to] = span(event);
    const picked = drag.area.querySelector(".picked");
    picked.hidden = false;
    picked.style.left = `${100 * from}%`;
    picked.style.width = `${100 * (to - from)}%`;
  });
  addEventListener("pointerup", (event) => {
    if (!drag) return;
    const [from, to] = span(event);
    const run = drag.area.closest(".run");
    const total = Number(run.querySelector("[data-list]").dataset.total);
    if ((to - from) * drag.box.width < 4) zoom(run); // a click shows the whole run
    else zoom(run, from * total, to * total);
    drag = null;
  });

  // Turns: their calls can be tucked away
  function tuck(turn, away) {
    turn.classList.toggle("tucked", away);
    for (const item of all(`[data-of="${CSS.escape(turn.id)}"]`, turn.closest("[data-list]"))) item.classList.toggle("away", away);
    const button = turn.querySelector(".fold");
    if (button) button.textContent = away ? "▸" : "▾";
  }
  function tuckAll(button) {
    const away = button.textContent === "Only turns";
    button.textContent = away ? "Turns and calls" : "Only turns";
    for (const turn of all(".step.turn", scopeOf(button))) tuck(turn, away);
  }

  // Lists: sorted by a column; filters and order are in the address
  function sort(name, downwards) {
    for (const button of all("[data-sort]")) button.closest("th").ariaSort = button.dataset.sort === name ? (downwards ? "descending" : "ascending") : null;
    for (const body of all("tbody[data-list]")) {
      const value = (row) => row.dataset[name] ?? "";
      const order = (a, b) => isNaN(value(a)) || isNaN(value(b)) ? value(a).localeCompare(value(b)) : value(a) - value(b);
      body.append(...[...body.rows].sort((a, b) => downwards ? order(b, a) : order(a, b)));
    }
  }
  function writeAddress() {
    const query = new URLSearchParams(location.search);
    for (const filter of all("[data-address] :is([data-filter], [data-filter-min])")) {
      const name = filter.dataset.filter ?? `min-${filter.dataset.filterMin}`;
      if (filter.value.trim()) query.set(name, filter.value.trim()); else query.delete(name);
    }
    const sorted = document.querySelector("th[aria-sort] [data-sort]");
    if (sorted) query.set("sort", (sorted.closest("th").ariaSort === "descending" ? "-" : "") + sorted.dataset.sort);
    try { history.replaceState(null, "", `?${query}${location.hash}`.replace(/^\?(#|$)/, `${location.pathname}$1`)); } catch { /* a file */ }
  }
  function readAddress() {
    const query = new URLSearchParams(location.search);
    let scope = null;
    for (const filter of all("[data-address] :is([data-filter], [data-filter-min])")) {
      const value = query.get(filter.dataset.filter ?? `min-${filter.dataset.filterMin}`);
      if (value !== null) { filter.value = value; scope = scopeOf(filter); }
    }
    const order = query.get("sort");
    if (order && document.querySelector(`[data-sort="${CSS.escape(order.replace("-", ""))}"]`)) sort(order.replace("-", ""), order.startsWith("-"));
    if (scope) applyFilters(scope);
  }
  addEventListener("plait:replaced", readAddress);
  function sortBy(button) {
    const now = button.closest("th").ariaSort;
    sort(button.dataset.sort, now ? now !== "descending" : button.dataset.number !== undefined);
    writeAddress();
  }

  const actions = { turn: (button) => { const turn = button.closest(".step"); tuck(turn, !turn.classList.contains("tucked")); }, turns: tuckAll, whole: (button) => zoom(button.closest(".run")), sort: sortBy, theme: toggleTheme, help: () => document.getElementById("help").showModal(), fold: foldAll };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do]");
    if (button) actions[button.dataset.do]?.(button);
    else if (event.target.id === "help") event.target.close();
    const row = event.target.closest(".row");
    const run = row?.closest(".run");
    if (run?.querySelector(".switch [value=w]")?.checked && !event.target.closest("a, button")) row.parentElement.classList.toggle("open");
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
  readAddress();
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
        for (const name of ["open", "tucked"]) item.classList.toggle(name, old.classList.contains(name));
        const open = new Set(all("details[open]", old).map((part) => part.id || part.firstElementChild.textContent));
        for (const part of all("details", item)) if (open.has(part.id || part.firstElementChild.textContent)) part.open = true;
        old.replaceWith(item);
        if (here === old) here = item;
      }
      const zoomed = list.dataset.zoom;
      if (zoomed || Number(list.dataset.total) !== Number(total)) {
        list.dataset.total = total;
        zoom(list.closest(".run"), ...zoomed ? zoomed.split(" ").map(Number) : []);
      }
      for (const turn of all(".tucked", list)) tuck(turn, true);
      clearTimeout(waiting);
      waiting = setTimeout(applyFilters, 0, scopeOf(list));
    },
  };
})();
