// What all views are made of. Texts become text nodes here and nowhere else: no name or value is ever markup.

/** An element; `props` are properties, `data` and `aria` attributes, `on` listeners; children are texts or nodes. */
export function el(name, props = {}, ...children) {
  const found = document.createElement(name);
  const { data = {}, aria = {}, on = {}, style = {}, ...own } = props;
  for (const [key, value] of Object.entries(own)) if (value !== undefined) found[key] = value;
  for (const [key, value] of Object.entries(data)) found.dataset[key] = String(value);
  for (const [key, value] of Object.entries(aria)) found.setAttribute(key === "role" ? key : `aria-${key}`, String(value));
  for (const [key, value] of Object.entries(style)) found.style.setProperty(key, String(value));
  for (const [key, value] of Object.entries(on)) found.addEventListener(key, value);
  found.append(...children.flat().filter((child) => child !== null && child !== undefined).map(plain));
  return found;
}

function plain(child) {
  return child instanceof Node ? child : document.createTextNode(shown(child));
}

/** A text with control characters shown by their symbols, so that none changes what stands beside it. */
export function shown(text) {
  return String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (c) => {
    const code = c.codePointAt(0);
    return code < 32 ? String.fromCodePoint(0x2400 + code) : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

/** A value's text; a blank has none. */
export const label = (text) => (text === "" ? "(blank)" : text.trim() === "" ? JSON.stringify(text) : text);

export function replace(parent, ...children) {
  parent.replaceChildren(...children.flat().filter(Boolean).map(plain));
}

/** The question's answer. `part` takes what comes before its end. Errors of the question are thrown as `Refused`. */
export async function ask(question, value, signal, part) {
  const response = await fetch(`ask/${question}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(value),
    signal,
  });
  let last = null;
  if (response.headers.get("content-type").startsWith("application/x-ndjson")) {
    for await (const line of lines(response.body)) {
      if (last !== null && part) part(last);
      last = JSON.parse(line);
    }
  } else if (response.headers.get("content-type").startsWith("application/json")) {
    last = await response.json();
  } else {
    last = { error: await response.text() };
  }
  if (last.error) throw new Refused(last.error);
  return last;
}

export class Refused extends Error {}

async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let kept = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    kept += value;
    const whole = kept.split("\n");
    kept = whole.pop();
    yield* whole.filter(Boolean);
  }
  if (kept) yield kept;
}

/** One line above everything, or none. */
export function say(text) {
  const place = document.getElementById("message");
  place.hidden = !text;
  place.textContent = text ? shown(text) : "";
}

/** Latest wins: starting anew gives up what was asked before. `html[data-busy]` counts what is under way. */
export class Turn {
  constructor() {
    this.control = null;
  }
  begin() {
    if (this.control) this.control.abort();
    this.control = new AbortController();
    return this.control.signal;
  }
}

let under = 0;
let started = 0;
/** Run something that asks; its refusals are said, unless it was given up. */
export async function during(signal, work, place) {
  const root = document.documentElement;
  if (!under) started = performance.now();
  root.dataset.busy = String(++under);
  if (place) place.classList.add("busy");
  try {
    return await work();
  } catch (error) {
    if (signal.aborted) return undefined;
    if (error instanceof Refused) say(error.message);
    else say("the page's server does not answer: csm explore has ended, or cannot be reached");
    return undefined;
  } finally {
    if (place && !signal.aborted) place.classList.remove("busy");
    root.dataset.busy = String(--under);
    if (!under && started) root.dataset.whole = String(performance.now() - started);
  }
}

export function percent(share) {
  if (share === 0) return "0 %";
  if (share < 0.0005) return "<0.1 %";
  if (share > 0.9995 && share < 1) return ">99.9 %";
  return `${(100 * share).toFixed(share > 0.9995 ? 0 : 1)} %`;
}

export const signed = (number, digits = 4) =>
  number === null ? "−∞" : `${number < 0 ? "−" : "+"}${Math.abs(number).toFixed(digits)}`;

export const count = (number) => number.toLocaleString("en");

/** A log-ratio in plain words. */
export function times(ratio) {
  if (ratio === null) return "impossible";
  const size = Math.abs(ratio);
  const factor = size < 14 ? Math.exp(size).toLocaleString("en", { maximumFractionDigits: 1, minimumFractionDigits: 1 }) : `e^${size.toFixed(0)}`;
  return `${factor} times ${ratio >= 0 ? "as" : "less"} probable`;
}

/** A probability in few digits, however small. */
export function small(logValue) {
  const value = Math.exp(logValue);
  if (value >= 0.001) return value.toPrecision(3);
  const power = Math.floor(logValue / Math.LN10);
  return `${Math.exp(logValue - power * Math.LN10).toFixed(2)}·10^${String(power).replace("-", "−")}`;
}

/** Within a group of buttons one is reached by Tab, the others by the arrow keys. */
export function roving(group) {
  group.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    const all = [...group.querySelectorAll("button")];
    const at = all.indexOf(document.activeElement);
    let to = null;
    if (event.key in steps) to = Math.min(Math.max(at + steps[event.key], 0), all.length - 1);
    if (event.key === "Home") to = 0;
    if (event.key === "End") to = all.length - 1;
    if (to === null || at < 0) return;
    event.preventDefault();
    all.forEach((button, k) => (button.tabIndex = k === to ? 0 : -1));
    all[to].focus();
  });
}

/** The log-probability of what is set. */
export function probabilityOf({ probability: found, complete, unknown: reason }, noun) {
  if (!found) return el("p", { className: "note" }, `No log-probability: ${reason || "nothing is set yet"}.`);
  const error = found.relative_error > 0 ? ` ± ${found.relative_error.toFixed(4)}` : "";
  const what = complete ? `of this ${noun}` : "of what is set";
  return el(
    "div",
    { data: { logProbability: found.log_value } },
    el("p", { className: "figure" }, `${found.log_value < 0 ? "−" : ""}${Math.abs(found.log_value).toFixed(4)}${error} `, el("small", {}, "nats")),
    el("p", { className: "note" }, `log-probability ${what}; probability ${small(found.log_value)}${error ? " (estimated by weighted draws)" : ""}`),
  );
}

/** Single changes as buttons; `use` takes one. */
export function changesOf(answer, use) {
  if (!answer.changes.length) return el("p", { className: "note" }, `No changes to list: ${answer.reason || "there are none"}.`);
  const line = (change) =>
    el(
      "li",
      {},
      el(
        "button",
        { type: "button", className: `change ${change.log_ratio > 0 ? "better" : "worse"}`, data: { logRatio: change.log_ratio }, on: { click: () => use(change) } },
        el("span", { className: "what" }, `${change.column}: ${label(change.from)} → ${label(change.to)}`),
        el("span", { className: "ratio" }, signed(change.log_ratio, 3)),
        el("span", { className: "words" }, times(change.log_ratio)),
      ),
    );
  return el("ul", { className: "changes" }, answer.changes.map(line));
}

export function panel(title, ...children) {
  const id = `part-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  const section = el("section", { className: "panel" }, el("div", { className: "head" }, el("h2", { id }, title)), children);
  section.setAttribute("aria-labelledby", id);
  return section;
}
