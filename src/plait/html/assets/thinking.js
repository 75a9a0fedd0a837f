"use strict";
(() => {
  const state = { step: null, zoom: null }; // kept when a live page is replaced

  function start() {
    const view = document.querySelector(".session");
    const slider = view?.querySelector("input[type=range]");
    if (!slider) return;
    const all = (selector) => [...view.querySelectorAll(selector)];
    const svg = view.querySelector("svg");
    const graph = view.querySelector(".graph");
    const width = svg.viewBox.baseVal.width;
    const height = svg.viewBox.baseVal.height;
    const last = Number(slider.max);

    function select(anchor, { scroll = true } = {}) {
      for (const article of all("article")) article.classList.toggle("shown", article.id === anchor);
      for (const node of all("a.node")) {
        const isHere = node.getAttribute("href") === `#${anchor}`;
        node.classList.toggle("here", isHere);
        if (isHere && scroll && node.checkVisibility()) node.scrollIntoView({ block: "nearest", inline: "nearest" });
      }
      view.querySelector(".details").scrollTop = 0;
    }
    function show(step, follow = true) {
      state.step = step >= last ? null : step;
      slider.value = step;
      view.querySelector("output").textContent = `${step} of ${last}`;
      for (const part of all("[data-step]")) part.classList.toggle("later", Number(part.dataset.step) > step);
      for (const part of all(".node.faded")) {
        const left = Number(part.dataset.left ?? 0);
        part.classList.toggle("left", left > 0 && left <= step);
        part.classList.toggle("settled", left === 0);
      }
      if (!follow) return;
      const current = view.querySelector(`svg a[data-step="${step}"]`);
      if (current) select(current.getAttribute("href").slice(1));
    }
    function zoom(how) {
      const fit = Math.min(1, (graph.clientWidth - 4) / width, (graph.clientHeight - 4) / height);
      const now = svg.getBoundingClientRect().width / width || 1;
      const scale = how === "fit" ? fit : Math.min(3, Math.max(0.05, now * how));
      state.zoom = scale;
      resize(scale);
    }
    function resize(scale) {
      svg.setAttribute("width", width * scale);
      svg.setAttribute("height", height * scale);
    }

    slider.addEventListener("input", () => show(Number(slider.value)));
    for (const button of all("[data-move]")) {
      button.addEventListener("click", () => move(Number(button.dataset.move)));
    }
    for (const button of all("[data-zoom]")) {
      button.addEventListener("click", () => zoom(button.dataset.zoom === "fit" ? "fit" : Number(button.dataset.zoom)));
    }
    const move = (distance) => show(Math.min(last, Math.max(1, Number(slider.value) + distance)));
    view.addEventListener("click", (event) => {
      const link = event.target.closest("a[href^='#']");
      if (!link) return;
      event.preventDefault();
      const anchor = link.getAttribute("href").slice(1);
      select(anchor);
      try { history.replaceState(null, "", `#${anchor}`); } catch { /* a frame without an address */ }
    });
    view.addEventListener("keydown", (event) => {
      if (event.target === slider || event.ctrlKey || event.metaKey || event.altKey) return;
      const moves = { ArrowRight: 1, ArrowLeft: -1 };
      if (event.key in moves && event.target !== graph) { event.preventDefault(); move(moves[event.key]); }
    });
    drag(graph);

    // Text stays readable: a graph that does not fit is panned, unless it is zoomed.
    function adapt() { resize(state.zoom ?? 1); }
    adapt();
    let before = graph.clientWidth;
    new ResizeObserver(() => {
      if (graph.clientWidth && graph.clientWidth !== before) { before = graph.clientWidth; adapt(); }
    }).observe(graph);
    const root = svg.querySelector("a.node rect");
    if (root && state.zoom === null) graph.scrollTop = (Number(root.getAttribute("y")) + 30) - graph.clientHeight / 2;
    graph.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const box = svg.getBoundingClientRect();
      const [x, y] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
      zoom(event.deltaY < 0 ? 1.1 : 1 / 1.1);
      const now = svg.getBoundingClientRect(); // what is under the pointer stays there
      graph.scrollBy(now.left + x * now.width - event.clientX, now.top + y * now.height - event.clientY);
    }, { passive: false });
    show(state.step ?? last, false);
    const chosen = decodeURIComponent(location.hash.slice(1));
    if (chosen && document.getElementById(chosen)) select(chosen);
  }
  function drag(graph) {
    let from = null;
    graph.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse" || event.button || event.target.closest("a")) return;
      from = { x: event.clientX + graph.scrollLeft, y: event.clientY + graph.scrollTop };
    });
    addEventListener("pointermove", (event) => {
      if (from) graph.scrollTo(from.x - event.clientX, from.y - event.clientY);
    });
    addEventListener("pointerup", () => { from = null; });
  }
  addEventListener("plait:replaced", start);
  start();
})();
