// Sequences: every single change of one as a map; to press a cell changes the sequence.
import { Turn, ask, changesOf, count, during, el, label, panel, probabilityOf, replace, say, shown, signed, times } from "./parts.js";
import { diverging } from "./image.js";

const CELL = 15; // pixels of a cell

export function showSequences(run, main) {
  const turn = new Turn();
  let given = run.start; // of letters and of further columns
  let first = null; // the sequence the page began with
  let found = null; // the last map
  let cursor = [0, 0];
  let scale = 1;

  const field = el("textarea", { id: "sequence", spellcheck: false, autocomplete: "off", on: { change: () => refresh({ text: field.value.replace(run.words ? /\n/g : /\s/g, run.words ? " " : "") }) } });
  field.setAttribute("autocapitalize", "characters");
  const canvas = el("canvas", { tabIndex: 0, aria: { role: "application", label: "map of single changes: arrow keys move, enter makes the change" } });
  const heads = el("canvas", { aria: { hidden: true } });
  const readout = el("p", { className: "readout", aria: { live: "polite" } });
  const mutations = el("ul", { className: "chips", aria: { live: "polite" } });
  const ends = [el("span", {}), el("span", {})];
  const probability = el("div", {});
  const changes = el("div", {});
  const draws = el("div", {});
  const extras = el("div", { className: "row", hidden: !run.extra.length });
  replace(main, layout());
  begin();

  function layout() {
    const example = run.words ? "words parted by spaces" : `letters ${run.labels.slice(0, 24).join("")}`;
    const blanks = run.blanks ? `; ${run.blanks.includes("?") ? "?" : run.blanks[0]} is a blank` : "";
    const write = panel("Sequence", el("div", { className: "stack" },
      el("div", {}, el("label", { htmlFor: "sequence" }, `One of ${count(run.names.length - run.extra.length)} positions, `, el("span", { className: "note" }, `${example}${blanks}`)), field), extras,
      el("div", {}, el("h3", {}, "Changes made"), mutations),
      el("div", { className: "row" },
        el("button", { type: "button", className: "button main", on: { click: () => refresh({ text: field.value.trim() }) } }, "Show this one"),
        el("button", { type: "button", className: "button", on: { click: drawOne } }, "Draw another"))));
    const legend = el("p", { className: "scale" }, ends[0], el("i", {}), ends[1], el("span", {}, "log-ratio; a ring marks the letter that is there"));
    const map = panel("Every single change", el("div", { className: "stack" }, readout,
      el("div", { className: "map" }, heads, el("div", { className: "scroll" }, canvas)), legend));
    const row = panel("This sequence", el("div", { className: "stack" }, probability, el("h2", {}, "Best single changes"), changes));
    const examples = panel("Draws", draws);
    return el("div", { className: "stack" }, map, el("div", { className: "split" }, el("div", { className: "aside stack" }, row), el("div", { className: "stack" }, write, examples)));
  }

  async function begin() {
    replace(draws, el("p", { className: "note" }, "None yet: press Draw another."));
    if (given.length) return refresh({ given });
    replace(readout, "Drawing a first sequence …");
    return drawOne();
  }

  async function drawOne() {
    const signal = turn.begin();
    say("");
    const answer = await during(signal, () => ask("draws", { given: [], count: 1 }, signal), draws);
    if (!answer) return;
    const text = answer.rows[0][answer.columns.indexOf("sequence")];
    replace(draws, el("p", { className: "mono" }, text), el("p", { className: "note" }, [`Drawn by ${answer.method}.`, ...answer.warnings].join(" ")));
    first = null;
    refresh({ text });
  }

  function refresh(question) {
    say("");
    const signal = turn.begin();
    during(signal, async () => {
      const answer = await ask("effects", question, signal);
      found = answer;
      given = answer.given;
      if (first === null) first = [...answer.values];
      const blank = [...run.blanks].includes("?") ? "?" : run.blanks[0] || "?";
      field.value = answer.values.filter((value) => value !== "<end>").map((value) => value ?? blank).join(run.words ? " " : "");
      showExtras();
      showMutations();
      draw();
      const more = await ask("row", { given }, signal);
      replace(probability, probabilityOf(more, "sequence"));
      replace(changes, changesOf(more, (change) => change_to(change.column, change.to)));
    }, main);
  }

  function change_to(column, letter) {
    const kept = given.filter((each) => each.column !== column);
    const next = letter === null ? kept : [...kept, { column, operator: "=", values: [letter] }];
    refresh({ given: next });
  }

  function showExtras() {
    replace(extras, run.extra.map(({ name, values }) => {
      const own = given.find((each) => each.column === name);
      const select = el("select", { on: { change: () => change_to(name, select.value === "" ? null : select.value) } },
        el("option", { value: "" }, "(not set)"), values.map((value) => el("option", { value }, value)));
      select.value = own ? own.values[0] : "";
      return el("label", {}, `${name} `, select);
    }));
  }

  function showMutations() {
    const made = found.values.map((value, d) => [d, first[d], value]).filter(([, before, after]) => before !== after);
    replace(mutations, made.length ? made.map(([d, before, after]) => el("li", { className: "chip" },
      el("span", {}, `${before ?? "?"}${found.sites[d]}${after ?? "?"}`),
      el("button", { type: "button", aria: { label: `undo the change at ${found.sites[d]}` }, on: { click: () => change_to(found.sites[d], before) } }, "×"))) : el("li", { className: "note" }, "none"));
  }

  function draw() {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const [wide, high] = [found.sites.length * CELL, found.labels.length * CELL];
    const sizes = found.log_ratios.flat().filter((each) => each !== null).map(Math.abs).sort((a, b) => a - b);
    scale = Math.max(sizes[Math.floor(0.98 * (sizes.length - 1))] || 1, 0.1);
    ends[0].textContent = signed(-scale, 1);
    ends[1].textContent = signed(scale, 1);
    const pen = sized(canvas, wide, high + 18, ratio);
    found.log_ratios.forEach((row, d) => row.forEach((value, v) => {
      const own = found.labels[v] === found.values[d];
      const [r, g, b] = found.values[d] === null ? diverging(0) : diverging(value === null ? -1 : value / scale);
      pen.fillStyle = `rgb(${r} ${g} ${b})`;
      pen.fillRect(d * CELL, v * CELL, CELL - 1, CELL - 1);
      if (own) ring(pen, d, v);
    }));
    const ink = getComputedStyle(document.body).color;
    pen.fillStyle = ink;
    pen.font = "11px system-ui, sans-serif";
    found.sites.forEach((site, d) => {
      if (d % 5 === 0) pen.fillText(shown(site), d * CELL, high + 13);
    });
    if (document.activeElement === canvas) {
      pen.strokeStyle = ink;
      pen.lineWidth = 2;
      pen.strokeRect(cursor[0] * CELL, cursor[1] * CELL, CELL - 1, CELL - 1);
    }
    const side = sized(heads, 34, high + 18, ratio);
    side.fillStyle = ink;
    side.font = "12px ui-monospace, monospace";
    found.labels.forEach((text, v) => side.fillText(shown(text).slice(0, 4), 2, v * CELL + 11));
    tell();
  }

  function ring(pen, d, v) {
    pen.strokeStyle = getComputedStyle(document.body).color;
    pen.lineWidth = 1.2;
    pen.beginPath();
    pen.arc(d * CELL + CELL / 2 - 0.5, v * CELL + CELL / 2 - 0.5, 3.2, 0, 7);
    pen.stroke();
  }

  function sized(target, wide, high, ratio) {
    target.width = wide * ratio;
    target.height = high * ratio;
    target.style.setProperty("width", `${wide}px`);
    target.style.setProperty("height", `${high}px`);
    const pen = target.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    return pen;
  }

  function tell() {
    if (!found) return;
    const [d, v] = cursor;
    const own = found.values[d];
    const what = `${own === null ? "?" : label(own)}${found.sites[d]}${label(found.labels[v])}`;
    const ratio = found.log_ratios[d][v];
    const words = own === null ? "blank: changes are counted where a letter is" : own === found.labels[v] ? "as it is" : `log-ratio ${signed(ratio, 3)}, ${times(ratio)}`;
    replace(readout, el("strong", {}, what), ` ${words}`);
    canvas.dataset.site = found.sites[d];
    canvas.dataset.to = found.labels[v];
    canvas.dataset.logRatio = String(ratio);
  }

  function at(event) {
    const box = canvas.getBoundingClientRect();
    const d = Math.floor((event.clientX - box.left) / CELL);
    const v = Math.floor((event.clientY - box.top) / CELL);
    return found && d >= 0 && v >= 0 && d < found.sites.length && v < found.labels.length ? [d, v] : null;
  }

  canvas.addEventListener("pointermove", (event) => {
    const to = at(event);
    if (to && (to[0] !== cursor[0] || to[1] !== cursor[1])) {
      cursor = to;
      tell();
    }
  });
  canvas.addEventListener("click", (event) => {
    const to = at(event);
    if (!to) return;
    cursor = to;
    change_to(found.sites[to[0]], found.labels[to[1]]);
  });
  canvas.addEventListener("focus", () => found && draw());
  canvas.addEventListener("blur", () => found && draw());
  canvas.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
    if (!found) return;
    if (event.key in steps) {
      cursor = [Math.min(Math.max(cursor[0] + steps[event.key][0], 0), found.sites.length - 1), Math.min(Math.max(cursor[1] + steps[event.key][1], 0), found.labels.length - 1)];
      canvas.parentNode.scrollLeft = Math.max(0, cursor[0] * CELL - canvas.parentNode.clientWidth / 2);
      draw();
    } else if (event.key === "Enter" || event.key === " ") change_to(found.sites[cursor[0]], found.labels[cursor[1]]);
    else return;
    event.preventDefault();
  });
}
