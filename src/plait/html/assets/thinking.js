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
      const fit = Math.min(1, (graph.clientWidth - 4) / width);
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

    // A graph that is a little too wide is made smaller; a huge one stays readable and scrolls.
    function adapt() {
      const fit = (graph.clientWidth - 4) / width;
      const least = graph.clientWidth < 600 ? 0.8 : 0.45;
      resize(state.zoom ?? Math.min(1, Math.max(fit, least)));
      if (state.zoom === null && fit < least) center(graph, svg);
    }
    adapt();
    let before = graph.clientWidth;
    new ResizeObserver(() => {
      if (graph.clientWidth && graph.clientWidth !== before) { before = graph.clientWidth; adapt(); }
    }).observe(graph);
    show(state.step ?? last, false);
    const chosen = decodeURIComponent(location.hash.slice(1));
    if (chosen && document.getElementById(chosen)) select(chosen);
  }
  function center(graph, svg) {
    const box = svg.querySelector("a.node rect");
    if (!box) return;
    const scale = Number(svg.getAttribute("width")) / svg.viewBox.baseVal.width;
    graph.scrollLeft = (Number(box.getAttribute("x")) + 125) * scale - graph.clientWidth / 2;
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
