"use strict";
/* The task stream and the chunks of the report, on two canvases that share a window of time. Names are only ever set as text. */
const $ = id => document.getElementById(id);
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const make = (tag, text) => { const e = document.createElement(tag); if (text !== undefined) e.textContent = text; return e; };
const say = (text, e) => {
  const tip = $("tip");
  tip.textContent = text; tip.style.display = text ? "block" : "none";
  if (text) {
    tip.style.left = Math.max(0, Math.min(e.clientX + 14, innerWidth - tip.offsetWidth - 4)) + "px";
    tip.style.top = Math.min(e.clientY + 14, innerHeight - tip.offsetHeight - 4) + "px";
  }
};
function surface(id, height) {
  const canvas = $(id), ratio = devicePixelRatio || 1, width = canvas.parentElement.clientWidth;
  canvas.style.height = height + "px";
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
  }
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0); g.clearRect(0, 0, width, height); g.font = "12px system-ui,sans-serif";
  return { g, width, height };
}
/* Columns that Python has packed: byte planes apart, deflated, base64. */
const unpack = async packed => {
  const bytes = Uint8Array.from(atob(packed), c => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const raw = new Uint8Array(await new Response(stream).arrayBuffer());
  const length = new DataView(raw.buffer).getUint32(0, true);
  const d = JSON.parse(new TextDecoder().decode(raw.subarray(4, 4 + length)));
  let at = 4 + length;
  for (const [name, width, n] of d.columns) {
    const out = new ({ 1: Uint8Array, 2: Uint16Array, 4: Uint32Array })[width](n);
    for (let plane = 0; plane < width; plane++)
      for (let i = 0; i < n; i++) out[i] += raw[at + plane * n + i] * 2 ** (8 * plane);
    at += width * n; d[name] = out;
  }
  return d;
};

(async () => {
  for (const figure of document.querySelectorAll("figure[data-name]")) {
    const button = make("button", "SVG");
    button.className = "save"; button.title = "Save this figure";
    button.onclick = () => {
      const link = make("a"), text = new XMLSerializer().serializeToString(figure.querySelector("svg"));
      link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
      link.download = figure.dataset.name + ".svg"; link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    };
    figure.prepend(button);
  }

  const packed = $("data").textContent.trim();
  if (!packed) return;
  const d = await unpack(packed);
  const slots = d.count.length, first = new Uint32Array(slots + 1), n = d.step.length, NONE = 0xFFFFFFFF;
  const start = new Float64Array(n), slotOf = new Uint32Array(n), chunkOf = new Map();
  for (let s = 0, i = 0; s < slots; s++) {
    first[s] = i;
    for (let t = 0, k = 0; k < d.count[s]; k++, i++) { t += d.step[i]; start[i] = t; slotOf[i] = s; }
    first[s + 1] = i;
  }
  d.c_task.forEach((task, chunk) => { if (task !== NONE) chunkOf.set(task, chunk); });
  const all = { t0: 0, t1: d.end || 1, s0: 0, s1: slots };
  let view = { ...all }, chosen = -1, hidden = new Set(), dataset = -1, waiting = false;
  const LEFT = 8, BOTTOM = 22;

  const nice = span => { const p = 10 ** Math.floor(Math.log10(span)); return [1, 2, 5, 10].map(k => k * p).find(k => span / k <= 8); };
  function axis(g, x, from, to, y, height, unit) {
    const step = nice(to - from), digits = Math.max(0, -Math.floor(Math.log10(step)));
    g.fillStyle = css("--faint"); g.strokeStyle = css("--line"); g.lineWidth = 1; g.textAlign = "center";
    for (let v = Math.ceil(from / step) * step; v <= to; v += step) {
      g.beginPath(); g.moveTo(x(v), 0); g.lineTo(x(v), height); g.stroke();
      g.fillText(v.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }) + unit, x(v), y);
    }
  }
  const from = (slot, time) => { // first task of the slot that ends after the time
    let lo = first[slot], hi = first[slot + 1];
    while (lo < hi) { const mid = (lo + hi) >> 1; if (start[mid] + d.took[mid] < time) lo = mid + 1; else hi = mid; }
    return lo;
  };
  const height = () => Math.min(560, Math.max(120, slots * 14 + BOTTOM));

  function drawStream() {
    const { g, width, height: h } = surface("stream", height());
    const plot = h - BOTTOM, x = t => LEFT + (width - 2 * LEFT) * (t - view.t0) / (view.t1 - view.t0);
    axis(g, v => x(v / d.unit_s), view.t0 * d.unit_s, view.t1 * d.unit_s, h - 6, plot, " s");
    const row = plot / (view.s1 - view.s0), above = Math.floor(view.s0), below = Math.min(slots, Math.ceil(view.s1));
    let shown = 0;
    for (let s = above; s < below; s++) {
      const y = (s - view.s0) * row, tall = Math.max(1, row > 4 ? row - 2 : row);
      let drawn = -1, colour = "";
      for (let i = from(s, view.t0); i < first[s + 1] && start[i] <= view.t1; i++) {
        if (hidden.has(d.side[i])) continue;
        shown++;
        const left = x(start[i]), right = x(start[i] + d.took[i]);
        const c = d.status[i] === d.ok ? d.colours[d.side[i]] : "#c1272d";
        if (right < drawn + 0.5 && c === colour) continue; // this pixel has it
        if (c !== colour) g.fillStyle = colour = c;
        const gap = right - left > 4 ? 1 : 0;
        g.fillRect(left, y, Math.max(1, right - left - gap), tall); drawn = right;
      }
    }
    if (chosen >= 0) {
      g.strokeStyle = css("--ink"); g.lineWidth = 2;
      g.strokeRect(x(start[chosen]) - 2, (slotOf[chosen] - view.s0) * row - 1, x(start[chosen] + d.took[chosen]) - x(start[chosen]) + 4, Math.max(3, row));
    }
    $("range").textContent = `${(view.t0 * d.unit_s).toFixed(3)} s to ${(view.t1 * d.unit_s).toFixed(3)} s, ${shown.toLocaleString("en")} of ${n.toLocaleString("en")} tasks on ${(below - above).toLocaleString("en")} of ${slots.toLocaleString("en")} threads`;
  }

  const palette = ["#2b6ca3", "#e9a23b", "#2a9d8f", "#4a2383", "#8d6e63", "#8ab17d", "#5c6773", "#e678a0"];
  const rank = []; // colours by name, as in the figures
  [...d.datasets.keys()].sort((a, b) => d.datasets[a] < d.datasets[b] ? -1 : 1).forEach((id, i) => { rank[id] = i; });
  let scale = null;
  const visible = c => d.c_events[c] !== NONE && d.c_start[c] >= view.t0 && d.c_start[c] <= view.t1 && (dataset < 0 || d.c_dataset[c] === dataset);
  function drawChunks() {
    const { g, width, height: h } = surface("chunks", 320);
    let xm = 1, ym = 1e-5;
    for (let c = 0; c < d.c_wall.length; c++) if (d.c_events[c] !== NONE) { if (d.c_events[c] > xm) xm = d.c_events[c]; if (d.c_wall[c] > ym) ym = d.c_wall[c]; }
    const x = v => 50 + (width - 62) * v / (1.03 * xm), y = v => (h - BOTTOM) * (1 - v / (1.05 * ym));
    scale = { x, y };
    axis(g, x, 0, 1.03 * xm, h - 6, h - BOTTOM, "");
    const step = nice(1.05 * ym * 1e-5); g.textAlign = "right"; g.fillStyle = css("--faint");
    for (let v = 0; v <= 1.05 * ym * 1e-5; v += step) g.fillText(v.toPrecision(3).replace(/\.?0+$/, "") + " s", 46, y(v * 1e5) + 4);
    const dots = d.c_wall.length, size = dots > 2e4 ? 2 : 5;
    let shown = 0; g.globalAlpha = dots > 2e4 ? 0.5 : 0.75;
    for (let c = 0; c < dots; c++) {
      if (!visible(c)) continue;
      shown++; g.fillStyle = d.c_status[c] === 0 ? palette[(rank[d.c_dataset[c]] ?? 0) % palette.length] : "#c1272d";
      g.fillRect(x(d.c_events[c]) - size / 2, y(d.c_wall[c]) - size / 2, size, size);
    }
    g.globalAlpha = 1;
    const mine = chunkOf.get(chosen);
    if (mine !== undefined) { g.strokeStyle = css("--ink"); g.lineWidth = 2; g.strokeRect(x(d.c_events[mine]) - 6, y(d.c_wall[mine]) - 6, 12, 12); }
    $("shown").textContent = `${shown.toLocaleString("en")} of ${dots.toLocaleString("en")} attempts: those that began in the window of the task stream`;
  }
  function draw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; drawStream(); drawChunks(); });
  }

  const describe = i => {
    const s = slotOf[i], w = d.slot_worker[s], chunk = chunkOf.get(i);
    let text = `${d.prefixes[d.prefix[i]] ?? "?"} (${d.sides[d.side[i]]}, ${d.statuses[d.status[i]]})\n${(start[i] * d.unit_s).toFixed(3)} s + ${(d.took[i] * d.unit_s).toFixed(4)} s\n${d.workers[w] ?? "?"}`;
    if (chunk !== undefined) text += `\n${d.datasets[d.c_dataset[chunk]] ?? "?"}, ${d.c_events[chunk] === NONE ? "?" : d.c_events[chunk].toLocaleString("en")} events, process() ${(d.c_wall[chunk] * 1e-5).toFixed(3)} s`;
    return text;
  };
  const canvas = $("stream"), place = e => {
    const box = canvas.getBoundingClientRect();
    return { t: view.t0 + (view.t1 - view.t0) * (e.clientX - box.left - LEFT) / (box.width - 2 * LEFT), s: view.s0 + (view.s1 - view.s0) * (e.clientY - box.top) / (box.height - BOTTOM) };
  };
  const find = e => {
    const p = place(e), s = Math.floor(p.s);
    if (s < 0 || s >= slots) return -1;
    const near = 3 * (view.t1 - view.t0) / canvas.clientWidth;
    for (let i = from(s, p.t - near); i < first[s + 1] && start[i] <= p.t + near; i++) if (!hidden.has(d.side[i])) return i;
    return -1;
  };
  const clamp = () => {
    const span = Math.min(all.t1, Math.max(1e-3 / d.unit_s, view.t1 - view.t0));
    view.t0 = Math.max(0, Math.min(view.t0, all.t1 - span)); view.t1 = view.t0 + span;
    const rows = Math.min(slots, Math.max(1, view.s1 - view.s0));
    view.s0 = Math.max(0, Math.min(view.s0, slots - rows)); view.s1 = view.s0 + rows;
  };
  const zoom = (factor, t, s) => {
    if (s === undefined) { view.t0 = t - (t - view.t0) * factor; view.t1 = t + (view.t1 - t) * factor; }
    else { view.s0 = s - (s - view.s0) * factor; view.s1 = s + (view.s1 - s) * factor; }
    clamp(); draw();
  };
  canvas.addEventListener("wheel", e => {
    if (!e.ctrlKey && !e.metaKey) return; // the page scrolls
    e.preventDefault(); const p = place(e); zoom(1.0015 ** (e.deltaY || e.deltaX), p.t, e.shiftKey ? p.s : undefined);
  }, { passive: false });
  let drag = null;
  canvas.addEventListener("pointerdown", e => { drag = { ...place(e), moved: false }; canvas.setPointerCapture(e.pointerId); });
  canvas.addEventListener("pointerup", e => { if (drag && !drag.moved) { chosen = find(e); draw(); } drag = null; });
  canvas.addEventListener("pointermove", e => {
    const p = place(e);
    if (drag) {
      if (Math.abs(p.t - drag.t) > 2 * (view.t1 - view.t0) / canvas.clientWidth) drag.moved = true;
      view.t0 += drag.t - p.t; view.t1 += drag.t - p.t; view.s0 += drag.s - p.s; view.s1 += drag.s - p.s;
      clamp(); draw(); return;
    }
    const i = find(e); say(i < 0 ? "" : describe(i), e);
  });
  canvas.addEventListener("pointerleave", e => say("", e));
  canvas.addEventListener("dblclick", () => { view = { ...all }; draw(); });
  canvas.addEventListener("keydown", e => {
    const span = view.t1 - view.t0, mid = view.t0 + span / 2;
    const keys = { "+": () => zoom(0.7, mid), "-": () => zoom(1.4, mid), ArrowLeft: () => { view.t0 -= span / 5; view.t1 -= span / 5; }, ArrowRight: () => { view.t0 += span / 5; view.t1 += span / 5; }, Escape: () => { view = { ...all }; chosen = -1; } };
    if (keys[e.key]) { e.preventDefault(); keys[e.key](); clamp(); draw(); }
  });
  $("chunks").addEventListener("pointermove", e => {
    const box = $("chunks").getBoundingClientRect(), px = e.clientX - box.left, py = e.clientY - box.top;
    let best = -1, least = 64;
    for (let c = 0; c < d.c_wall.length; c++) {
      if (!visible(c)) continue;
      const far = (scale.x(d.c_events[c]) - px) ** 2 + (scale.y(d.c_wall[c]) - py) ** 2;
      if (far < least) { least = far; best = c; }
    }
    const task = best < 0 ? -1 : d.c_task[best];
    if (best >= 0) say(task !== NONE ? describe(task) : `${d.datasets[d.c_dataset[best]] ?? "?"}, ${d.c_events[best].toLocaleString("en")} events, ${d.chunk_statuses[d.c_status[best]]}`, e); else say("", e);
    const now = task === NONE || best < 0 ? -1 : task;
    if (now !== chosen) { chosen = now; draw(); }
  });
  $("chunks").addEventListener("pointerleave", e => say("", e));

  for (const side of [...new Set(d.side)].sort((a, b) => a - b)) {
    const label = make("label"), box = make("input"), key = make("span");
    box.type = "checkbox"; box.checked = true; key.className = "key"; key.style.background = d.colours[side];
    box.onchange = () => { if (box.checked) hidden.delete(side); else hidden.add(side); draw(); };
    label.append(box, key, document.createTextNode(d.sides[side])); $("sides").append(label);
  }
  const select = $("dataset");
  d.datasets.forEach((name, i) => { const option = make("option", name); option.value = i; select.append(option); });
  select.onchange = () => { dataset = +select.value; draw(); };
  $("whole").onclick = () => { view = { ...all }; draw(); };
  for (const element of document.querySelectorAll(".needs-script")) element.hidden = false;
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme:dark)").addEventListener("change", draw);
  drawStream(); drawChunks();
  document.documentElement.dataset.ready = "1";
})();
