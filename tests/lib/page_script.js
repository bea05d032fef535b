/* Runs the script of a report without a browser: `node page_script.js PAGE` prints what the icicle says after some clicks, as JSON;
 * with `stream` behind PAGE what the task stream says after turns of the wheel, and which of them the page did not get. */
const fs = require("fs");
const page = fs.readFileSync(process.argv[2], "utf8");
const script = [...page.matchAll(/<script>([\s\S]*?)<\/script>/g)].pop()[1];
const known = {};
const pen = new Proxy({}, { get: (t, k) => t[k] ?? (() => {}), set: () => true });
function element(id) {
  return known[id] ??= {
    id, style: {}, dataset: {}, children: [], listeners: {}, hidden: true, textContent: "", offsetWidth: 10, offsetHeight: 10,
    append(...more) { this.children.push(...more); }, prepend() {}, addEventListener(name, f) { this.listeners[name] = f; },
    getContext: () => pen, parentElement: { clientWidth: 1000 }, querySelectorAll() { return this.selects ?? []; },
    getBoundingClientRect: () => ({ left: 0, top: 0, width: 1000, height: 400 }), closest: () => element("section"),
  };
}
element("flame").dataset.looks = page.match(/data-looks="([^"]*)"/)[1];
element("choices").selects = ["phase", "state", "dataset", "worker"].map(what => {
  const select = element(what); select.dataset.of = what; return select;
});
let made = 0;
const ofStream = process.argv[3] === "stream", data = ofStream ? page.match(/id="data">([^<]*)</)[1] : "";
global.document = {
  documentElement: { dataset: {} }, getElementById: id => id === "data" ? { textContent: data } : element(id), querySelectorAll: () => [],
  createElement: () => element(`made ${made++}`), createTextNode: text => ({ text }),
};
Object.assign(global, {
  getComputedStyle: () => ({ getPropertyValue: () => "#000000" }), devicePixelRatio: 1, innerWidth: 1000, innerHeight: 800,
  requestAnimationFrame: f => f(), addEventListener() {}, matchMedia: () => ({ addEventListener() {} }),
});
(0, eval)(script);
const flame = element("flame"), said = { all: "" };
const turn = (name, more) => {
  let taken = false;
  const event = { deltaY: -1000, deltaX: 0, clientX: 10, clientY: 10, preventDefault() { taken = true; }, ...more };
  element("stream").listeners.wheel(event);
  said[name] = [taken, element("range").textContent];
};
const waitForStream = () => {
  if (!document.documentElement.dataset.ready) return setTimeout(waitForStream, 10);
  said.all = [false, element("range").textContent];
  turn("plain", {}); turn("shift", { shiftKey: true });
  turn("ctrl", { ctrlKey: true }); turn("out", { metaKey: true, deltaY: 1e5 }); turn("threads", { ctrlKey: true, shiftKey: true });
  console.log(JSON.stringify(said));
};
const wait = () => {
  if (!flame.dataset.ready) return setTimeout(wait, 10);
  const note = name => { said[name] = element("frame").textContent; };
  note("all");
  flame.listeners.click({ clientX: 10, clientY: 25 }); note("first phase");
  flame.listeners.click({ clientX: 10, clientY: 45 }); note("first frame");
  flame.listeners.keydown({ key: "Escape", preventDefault() {} }); note("back");
  for (const what of ["phase", "state", "dataset", "worker"]) {
    const select = element(what);
    for (const { value, textContent } of [...select.children]) {
      select.value = value; select.onchange(); note(`${what} ${textContent}`);
    }
    select.value = "-1"; select.onchange();
  }
  console.log(JSON.stringify(said));
};
if (ofStream) waitForStream(); else wait();
