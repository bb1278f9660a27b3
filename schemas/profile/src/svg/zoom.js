"use strict";
(() => {
  const svg = document.documentElement;
  const status = document.getElementById("status");
  const keys = status.textContent;
  const [margin, row, character, charactersMin] = ["margin", "row", "character", "characters-min"]
    .map((name) => Number(svg.getAttribute("data-" + name)));
  const whole = svg.viewBox.baseVal.width - 2 * margin;
  // Places are written with two decimals.
  const rounding = 0.02;

  // Each caller comes before what it calls.
  const frames = [...document.querySelectorAll(".frame")].map((group) => {
    const [title, rect, label] = group.children;
    const place = (name) => Number(rect.getAttribute(name));
    const name = title.textContent.split("\n")[0];
    return { group, rect, label, name, x: place("x"), y: place("y"), width: place("width") };
  });
  const covers = (a, b) =>
    a.x <= b.x + rounding && a.x + a.width >= b.x + b.width - rounding;

  const fitting = (text, width) => {
    const characters = [...text];
    const room = Math.floor((width - 6) / character);
    if (room < charactersMin) return "";
    return characters.length <= room ? text : characters.slice(0, room - 1).join("") + "…";
  };

  const zoom = (to) => {
    for (const frame of frames) {
      const above = frame.y < to.y && covers(frame, to);
      const inside = frame.y >= to.y && covers(to, frame);
      const scale = whole / Math.max(to.width, rounding);
      const x = above ? margin : margin + (frame.x - to.x) * scale;
      const width = above ? whole : frame.width * scale;
      frame.group.classList.toggle("above", above);
      frame.group.classList.toggle("hidden", !above && !inside);
      frame.rect.setAttribute("x", x);
      frame.rect.setAttribute("width", width);
      frame.label.setAttribute("x", x + 3);
      frame.label.textContent = fitting(frame.name, width);
    }
  };

  const mark = (text) => {
    const wanted = text.toLowerCase();
    let count = 0;
    let width = 0;
    let end = -1;
    for (const frame of frames) {
      const found = wanted !== "" && frame.name.toLowerCase().includes(wanted);
      frame.group.classList.toggle("found", found);
      if (!found) continue;
      count += 1;
      // What a match calls is part of it.
      if (frame.x < end - rounding) continue;
      width += frame.width;
      end = frame.x + frame.width;
    }
    const share = ((100 * width) / whole).toFixed(1);
    status.textContent = wanted === "" ? keys : `${text}: ${count} found, ${share} %; Esc: reset`;
  };

  const focus = (frame) => {
    for (const other of frames) other.group.setAttribute("tabindex", other === frame ? 0 : -1);
    frame.group.focus();
  };
  const shown = (frame) => !frame.group.classList.contains("hidden");
  const near = {
    ArrowUp: (from) => frames.find((to) => to.y === from.y - row && covers(to, from)),
    ArrowDown: (from) =>
      frames.find((to) => shown(to) && to.y === from.y + row && covers(from, to)),
    ArrowLeft: (from) =>
      frames.findLast((to) => shown(to) && to.y === from.y && to.x < from.x),
    ArrowRight: (from) => frames.find((to) => shown(to) && to.y === from.y && to.x > from.x),
  };

  document.addEventListener("keydown", (event) => {
    const focused = frames.find((frame) => frame.group === document.activeElement);
    const isSearch = event.key === "/" || (event.key === "f" && (event.ctrlKey || event.metaKey));
    if (isSearch) {
      const text = prompt("Search for functions or files", "");
      if (text !== null) mark(text);
    } else if (event.key === "Escape") {
      zoom(frames[0]);
      mark("");
    } else if (event.key === "Enter" && focused) {
      zoom(focused);
    } else if (near[event.key]) {
      const to = focused ? near[event.key](focused) : frames[0];
      if (to) focus(to);
    } else {
      return;
    }
    event.preventDefault();
  });

  for (const frame of frames) {
    frame.group.addEventListener("click", () => {
      zoom(frame);
      focus(frame);
    });
  }
})();
