"use strict";
(() => {
  const element = (id) => document.getElementById(id);
  const data = JSON.parse(element("data").textContent);
  const { names, name, line, depth, value, own, delta } = data;
  const count = name.length;
  const [canvas, status, search, colour] = ["flame", "status", "search", "colour"].map(element);
  const context = canvas.getContext("2d");
  const row = 18;
  const rows = depth.reduce((most, of) => Math.max(most, of), 0) + 1;
  const whole = value[0] || 1;

  // Where each node starts and ends, as shares of the root; nodes come before what they call.
  const left = new Float64Array(count);
  const right = new Float64Array(count);
  const next = [0];
  const callers = new Int32Array(count).fill(-1);
  const last = [];
  for (let at = 0; at < count; at += 1) {
    const of = depth[at];
    left[at] = next[of];
    right[at] = left[at] + value[at] / whole;
    next[of] = right[at];
    next[of + 1] = left[at];
    callers[at] = of > 0 ? last[of - 1] : -1;
    last[of] = at;
  }

  let [zoomed, focused, isIcicle] = [0, -1, false];
  let found = null;

  const figure = (of, unit) => `${Number(of.toPrecision(3))} ${unit}`;
  const scaled = (of, steps) => {
    const fits = ([size]) => of === 0 || Math.abs(of) >= size;
    const [size, unit] = steps.find(fits) ?? steps.at(-1);
    return figure(of / size, unit);
  };
  const times = { nanoseconds: 1e9, microseconds: 1e6, milliseconds: 1e3, seconds: 1 };
  const units = (of) => {
    if (times[data.unit]) {
      return scaled(of / times[data.unit], [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]]);
    }
    const steps = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
    return data.unit === "bytes" ? scaled(of, steps) : figure(of, data.unit);
  };
  const place = (at) => {
    const [title, file] = names[name[at]];
    return file === "" && line[at] === 0 ? title : `${title} (${file}:${line[at]})`;
  };
  const figures = (at) => {
    if (!data.isDifference) {
      const share = ((100 * value[at]) / whole).toFixed(2);
      return `${place(at)}: ${units(value[at])} (${share} %), self ${units(own[at])}`;
    }
    const [culprit, peer] = [value[at] + delta[at] / 2, value[at] - delta[at] / 2];
    return `${place(at)}: culprit ${units(culprit)}/s, peer ${units(peer)}/s`;
  };

  const ofDelta = (of) => {
    const strength = data.deltaMax > 0 ? Math.min(1, Math.abs(of) / data.deltaMax) : 0;
    return `hsl(${of > 0 ? 4 : 214},85%,${96 - 34 * Math.sqrt(strength)}%)`;
  };
  const ofShare = (of) => {
    const root = Math.sqrt(Math.min(1, of));
    return `hsl(${52 - 44 * root},90%,${84 - 18 * root}%)`;
  };
  const fill = (at) => {
    if (found?.[name[at]]) return "#d63bd6";
    if (data.isDifference) return ofDelta(delta[at]);
    if (colour.value === "share") return ofShare(value[at] / whole);
    return names[name[at]][colour.value === "module" ? 3 : 2];
  };

  let [width, scale] = [0, 1];
  const top = (at) => (isIcicle ? depth[at] : rows - 1 - depth[at]) * row;
  const span = () => Math.max(right[zoomed] - left[zoomed], Number.EPSILON);
  const x = (share) => Math.min(Math.max((share - left[zoomed]) / span(), 0), 1) * width;

  const draw = () => {
    scale = window.devicePixelRatio || 1;
    width = canvas.clientWidth;
    canvas.width = width * scale;
    canvas.height = rows * row * scale;
    canvas.style.height = `${rows * row}px`;
    context.scale(scale, scale);
    context.font = "11px ui-monospace, Menlo, Consolas, monospace";
    context.textBaseline = "middle";
    const character = context.measureText("m").width;

    for (let at = 0; at < count; at += 1) {
      const [from, to] = [x(left[at]), x(right[at])];
      // What is narrower is not seen.
      if (to - from < 0.4) continue;
      context.globalAlpha = depth[at] < depth[zoomed] ? 0.55 : 1;
      context.fillStyle = fill(at);
      context.fillRect(from, top(at), Math.max(to - from - 0.5, 0.4), row - 1);
      const room = Math.floor((to - from - 6) / character);
      if (room >= 3) {
        const text = place(at);
        context.fillStyle = "#111";
        context.fillText(text.length > room ? text.slice(0, room - 1) + "…" : text, from + 3,
          top(at) + row / 2);
      }
    }
    context.globalAlpha = 1;
    if (focused >= 0) {
      context.strokeStyle = getComputedStyle(canvas).color;
      context.lineWidth = 2;
      const [from, to] = [x(left[focused]), x(right[focused])];
      context.strokeRect(from + 1, top(focused) + 1, to - from - 2, row - 3);
    }
  };

  const nodeAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const of = Math.floor((event.clientY - box.top) / row);
    const wanted = isIcicle ? of : rows - 1 - of;
    const share = left[zoomed] + ((event.clientX - box.left) / width) * span();
    for (let at = 0; at < count; at += 1) {
      if (depth[at] === wanted && left[at] <= share && share < right[at]) return at;
    }
    return -1;
  };
  const focus = (at) => {
    focused = at;
    status.textContent = at >= 0 ? figures(at) : status.dataset.keys;
    draw();
  };
  const zoom = (at) => {
    zoomed = at;
    focus(at);
  };
  const mark = () => {
    const wanted = search.value.toLowerCase();
    const has = ([title, file]) => title.toLowerCase().includes(wanted)
      || file.toLowerCase().includes(wanted);
    found = wanted === "" ? null : names.map(has);
    let [marked, share, end] = [0, 0, -1];
    for (let at = 0; found && at < count; at += 1) {
      if (!found[name[at]]) continue;
      marked += 1;
      // What a match calls is part of it.
      if (left[at] < end - 1e-12) continue;
      share += right[at] - left[at];
      end = right[at];
    }
    draw();
    status.textContent = found
      ? `${search.value}: ${marked} found, ${(100 * share).toFixed(1)} %` : status.dataset.keys;
  };
  const reset = () => {
    [zoomed, focused, search.value] = [0, -1, ""];
    mark();
  };
  const step = (by) => {
    for (let at = focused + by; at >= 0 && at < count; at += by) {
      if (depth[at] === depth[focused] && x(right[at]) - x(left[at]) >= 0.4) return at;
    }
    return focused;
  };
  const inward = () => (depth[focused + 1] === depth[focused] + 1 ? focused + 1 : focused);
  const outward = () => Math.max(callers[focused], 0);
  const near = {
    ArrowLeft: () => step(-1),
    ArrowRight: () => step(1),
    ArrowUp: () => (isIcicle ? outward() : inward()),
    ArrowDown: () => (isIcicle ? inward() : outward()),
  };

  canvas.addEventListener("click", (event) => {
    const at = nodeAt(event);
    if (at >= 0) zoom(at);
  });
  canvas.addEventListener("mousemove", (event) => {
    const at = nodeAt(event);
    status.textContent = at >= 0 ? figures(at) : status.dataset.keys;
    canvas.title = at >= 0 ? place(at) : "";
  });
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && focused >= 0) zoom(focused);
    else if (near[event.key]) focus(focused < 0 ? 0 : near[event.key]());
    else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") reset();
    else if (event.key === "/" && document.activeElement !== search) search.focus();
    else return;
    event.preventDefault();
  });

  search.addEventListener("input", mark);
  colour?.addEventListener("change", draw);
  element("reset").addEventListener("click", reset);
  element("flip").addEventListener("click", () => {
    isIcicle = !isIcicle;
    element("flip").textContent = isIcicle ? "flame" : "icicle";
    draw();
  });
  for (const button of document.querySelectorAll(".find")) {
    button.addEventListener("click", () => {
      search.value = button.dataset.name;
      mark();
    });
  }
  for (const button of document.querySelectorAll(".sort")) {
    button.addEventListener("click", () => {
      const body = document.querySelector("tbody");
      const key = (line) => Number(line.children[button.dataset.column].dataset.value);
      body.append(...[...body.children].sort((a, b) => key(b) - key(a)));
    });
  }
  window.addEventListener("resize", draw);
  draw();
})();
