
/* The icicle of the report: frames below their callers, as wide as their seconds. Names are only ever set as text. */
(async () => {
  const canvas = $("flame");
  if (!canvas) return;
  const d = await unpack(canvas.dataset.looks);
  const n = d.parent.length, rows = d.node.length, S = d.states.length, ROW = 19;
  const depth = new Uint16Array(n), children = Array.from({ length: n }, () => []);
  for (let i = 1; i < n; i++) { depth[i] = depth[d.parent[i]] + 1; children[d.parent[i]].push(i); }
  const phaseOf = new Int32Array(n).fill(-1); // position of its phase's name; -1: all of them
  for (let i = 1; i < n; i++) phaseOf[i] = depth[i] === 1 ? d.phases.indexOf(d.names[d.name[i]]) : phaseOf[d.parent[i]];
  const whole = new Float64Array(n * S), total = new Float64Array(n), own = new Float64Array(n);
  const only = { phase: -1, state: -1, dataset: -1, worker: -1 };
  let root = 0, chosen = -1, boxes = [];

  function sum() {
    whole.fill(0); own.fill(0); total.fill(0);
    for (let r = 0; r < rows; r++) {
      if (only.state >= 0 && d.state[r] !== only.state || only.dataset >= 0 && d.dataset[r] !== only.dataset) continue;
      if (only.worker >= 0 && d.worker[r] !== only.worker || only.phase >= 0 && phaseOf[d.node[r]] !== only.phase) continue;
      whole[d.node[r] * S + d.state[r]] += d.took[r]; own[d.node[r]] += d.took[r];
    }
    for (let i = n - 1; i >= 0; i--) {
      for (let s = 0; s < S; s++) {
        total[i] += whole[i * S + s];
        if (i) whole[d.parent[i] * S + s] += whole[i * S + s];
      }
    }
    for (const inner of children) inner.sort((a, b) => total[b] - total[a]);
  }
  const fill = { "": "--paper", user: "--accent" };
  function box(g, i, x, y, wide) {
    const owner = d.owners[d.owner[i]];
    g.globalAlpha = owner === "user" ? 0.22 : 1; g.fillStyle = css(fill[owner] ?? "--card");
    g.fillRect(x, y, Math.max(0.5, wide - 1), ROW - 2); g.globalAlpha = 1;
    for (let s = 0, at = x; s < S; s++) {
      const part = (wide - 1) * whole[i * S + s] / (total[i] || 1);
      if (part > 0) { g.fillStyle = d.colours[s]; g.fillRect(at, y + ROW - 6, part, 4); at += part; }
    }
    if (i === chosen) { g.strokeStyle = css("--ink"); g.lineWidth = 1.5; g.strokeRect(x, y, Math.max(1, wide - 1), ROW - 2); }
    const letters = Math.floor((wide - 6) / 6.6), name = d.names[d.name[i]];
    if (letters > 3) { g.fillStyle = css("--ink"); g.fillText(name.length > letters ? name.slice(0, letters - 1) + "…" : name, x + 3, y + 11); }
    boxes.push([i, x, y, wide]);
  }
  function draw() {
    const above = [];
    for (let i = root; i; i = d.parent[i]) above.unshift(d.parent[i]);
    let deepest = above.length;
    const width = canvas.parentElement.clientWidth, placed = [], todo = [[root, 0, above.length]];
    while (todo.length) {
      const [i, x, level] = todo.pop(), wide = width * total[i] / (total[root] || 1);
      if (wide < 1) continue;
      placed.push([i, x, level, wide]); deepest = Math.max(deepest, level);
      let at = x;
      for (const inner of children[i]) { todo.push([inner, at, level + 1]); at += width * total[inner] / (total[root] || 1); }
    }
    const { g } = surface("flame", Math.min(1400, (deepest + 1) * ROW + 4));
    boxes = [];
    above.forEach((i, level) => { box(g, i, 0, level * ROW + 2, width); });
    for (const [i, x, level, wide] of placed) box(g, i, x, level * ROW + 2, wide);
    $("frame").textContent = describe(chosen >= 0 ? chosen : root).replaceAll("\n", ", ");
  }
  const second = v => (v * d.unit_s).toLocaleString("en", { maximumFractionDigits: 3 }) + " s";
  function describe(i) {
    const states = [...d.states.keys()].filter(s => whole[i * S + s] > 0).sort((a, b) => whole[i * S + b] - whole[i * S + a]);
    const share = 100 * total[i] / (total[0] || 1);
    return `${d.names[d.name[i]]}\n${second(total[i])}, ${share.toFixed(1)} % of what is chosen, ${second(own[i])} in itself\n`
      + states.map(s => `${d.states[s].replace("_", " ")} ${second(whole[i * S + s])}`).join("\n");
  }
  const at = e => {
    const view = canvas.getBoundingClientRect(), x = e.clientX - view.left, y = e.clientY - view.top;
    return (boxes.find(([, left, top, wide]) => x >= left && x < left + wide && y >= top && y < top + ROW) ?? [-1])[0];
  };
  const show = i => { root = i; chosen = -1; draw(); };
  canvas.addEventListener("pointermove", e => { const i = at(e); say(i < 0 ? "" : describe(i), e); });
  canvas.addEventListener("pointerleave", e => say("", e));
  canvas.addEventListener("click", e => { const i = at(e); if (i >= 0) show(i); });
  canvas.addEventListener("dblclick", () => show(0));
  canvas.addEventListener("keydown", e => {
    const now = chosen >= 0 ? chosen : root, beside = now ? children[d.parent[now]].filter(i => total[i] > 0) : [];
    const to = {
      ArrowUp: () => { if (now) chosen = d.parent[now]; },
      ArrowDown: () => { if (children[now].length && total[children[now][0]] > 0) chosen = children[now][0]; },
      ArrowLeft: () => { chosen = beside[Math.max(0, beside.indexOf(now) - 1)] ?? now; },
      ArrowRight: () => { chosen = beside[Math.min(beside.length - 1, beside.indexOf(now) + 1)] ?? now; },
      Enter: () => { root = now; chosen = -1; },
      Escape: () => { root = 0; chosen = -1; },
    };
    if (to[e.key]) { e.preventDefault(); to[e.key](); draw(); }
  });
  $("outermost").onclick = () => show(0);
  for (const select of $("choices").querySelectorAll("select")) {
    const what = select.dataset.of, names = d[what + "s"];
    names.forEach((name, i) => { const option = make("option", name.replace("_", " ")); option.value = i; select.append(option); });
    select.hidden = names.length < 2;
    select.onchange = () => { only[what] = +select.value; sum(); if (!total[root]) root = 0; chosen = -1; draw(); };
  }
  for (const s of new Set(d.state)) {
    const label = make("label"), key = make("span");
    key.className = "key"; key.style.background = d.colours[s];
    label.append(key, document.createTextNode(d.states[s].replace("_", " "))); $("states").append(label);
  }
  sum();
  canvas.closest(".needs-script").hidden = false;
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme:dark)").addEventListener("change", draw);
  draw();
  canvas.dataset.ready = "1";
})();
