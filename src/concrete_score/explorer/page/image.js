// Images: paint some pixels, and watch the rest fill in.
import { Turn, ask, changesOf, count, during, el, panel, probabilityOf, replace, roving, say } from "./parts.js";

const UNSET = -1;
const PAUSE = 250; // milliseconds after the last stroke

export function showImages(run, main) {
  const [height, width] = run.shape;
  const top = run.greys.length - 1;
  const painted = new Int16Array(height * width).fill(UNSET);
  const turn = new Turn();
  let guess = null; // the first completion, shown where nothing is painted
  let brush = top;
  let cursor = null;
  let waiting = 0;

  const canvas = el("canvas", { className: "paint", width, height, tabIndex: 0, style: { "--ratio": `${width} / ${height}` },
    aria: { role: "application", label: `image of ${height} by ${width} pixels: arrow keys move, space paints, delete unsets` } });
  const state = el("p", { className: "note readout", aria: { live: "polite" } });
  const bar = el("progress", { max: 1, value: 0, aria: { label: "filling in" } });
  const pictures = el("div", { className: "pictures", aria: { role: "group", label: "completions" } });
  const mean = el("canvas", { className: "still", width, height, style: { "--ratio": `${width} / ${height}` } });
  const effects = el("canvas", { className: "still", width, height, style: { "--ratio": `${width} / ${height}` } });
  const effectsFigure = el("figure", { hidden: true }, effects, el("figcaption", {}, "what changing each pixel would do: blue raises the probability, orange lowers it"));
  const how = el("p", { className: "note" });
  const probability = el("div", {});
  const changes = el("div", {});
  const passes = el("select", { on: { change: () => fill() } }, [20, 60, 240].map((many) => el("option", { value: many, selected: many === 60 }, `${many}${{ 20: ", quick", 60: "", 240: ", careful" }[many]}`)));
  replace(main, layout());
  for (const { column, values } of run.start) painted[place(column)] = Math.max(0, run.greys.indexOf(values[0]));
  if (!run.start.length) painted.fill(UNSET);
  draw();
  fill();

  function layout() {
    const tools = el("div", { className: "row", aria: { role: "group", label: "brush" } }, run.greys.length <= 8 ? run.greys.map((grey, level) => tool(level, name(level))) : slider(), tool(UNSET, "erase"));
    roving(tools);
    const again = run.from_noise ? el("label", {}, "passes from noise ", passes) : null;
    const clear = el("button", { type: "button", className: "button", on: { click: () => (painted.fill(UNSET), changed()) } }, "Clear all");
    const left = panel("Paint", el("div", { className: "stack" }, tools, canvas, state, el("div", { className: "row" }, clear, again)));
    const pair = el("div", { className: "pair" }, el("figure", {}, mean, el("figcaption", {}, "mean of the completions")), effectsFigure);
    const right = panel("Completions", el("div", { className: "stack" }, el("p", { className: "note" }, "Each is a draw given what is painted; press one to take all its pixels."), bar, pictures, pair, how));
    const row = panel("This image", el("div", { className: "stack" }, probability, el("h2", {}, "Best single changes"), changes));
    return el("div", { className: "split even" }, el("div", { className: "stack" }, left), el("div", { className: "stack" }, right, row));
  }

  function name(level) {
    return level === 0 ? "black" : level === top ? "white" : `grey ${run.greys[level]}`;
  }

  function tool(level, text) {
    const swatch = level === UNSET ? null : el("span", { className: "swatch", style: { "--grey": css(level) } });
    const choose = () => {
      brush = level;
      for (const each of button.parentNode.querySelectorAll("button")) each.setAttribute("aria-pressed", String(each === button));
    };
    const button = el("button", { type: "button", className: "button", aria: { pressed: level === brush }, on: { click: choose } }, swatch, text);
    return button;
  }

  function slider() {
    const input = el("input", { type: "range", min: 0, max: top, value: top, on: { input: () => (brush = Number(input.value)) } });
    return el("label", {}, "grey ", input);
  }

  function css(level) {
    const grey = Math.round((255 * level) / top);
    return `rgb(${grey} ${grey} ${grey})`;
  }

  function place(column) {
    const [row, at] = column.split(",").map(Number);
    return row * width + at;
  }

  function given() {
    const found = [];
    painted.forEach((level, at) => {
      if (level !== UNSET) found.push({ column: `${Math.floor(at / width)},${at % width}`, operator: "=", values: [run.greys[level]] });
    });
    return found;
  }

  function draw() {
    const tint = dark() ? [60, 105, 160] : [150, 185, 225];
    put(canvas, (at) => {
      if (painted[at] !== UNSET) return grey(painted[at] / top);
      const base = guess ? guess[at] / top : (Math.floor(at / width) + at) % 2 ? 0.55 : 0.45;
      return tint.map((part) => Math.round(0.55 * part + 0.45 * 255 * base));
    });
    if (cursor !== null && document.activeElement === canvas) {
      const pen = canvas.getContext("2d");
      pen.fillStyle = "rgb(230 120 30 / 70%)";
      pen.fillRect(cursor % width, Math.floor(cursor / width), 1, 1);
    }
    const set = painted.reduce((sum, level) => sum + (level !== UNSET), 0);
    state.textContent = `${count(set)} of ${count(painted.length)} pixels are painted; the blue ones are filled in.`;
  }

  function changed() {
    draw();
    clearTimeout(waiting);
    waiting = setTimeout(fill, PAUSE);
    document.documentElement.dataset.waiting = "1";
  }

  function fill() {
    clearTimeout(waiting);
    document.documentElement.dataset.waiting = "";
    say("");
    const signal = turn.begin();
    const question = { given: given() };
    bar.removeAttribute("value");
    during(signal, async () => {
      const answer = await ask("fill", { ...question, passes: Number(passes.value) }, signal, (part) => show(part.images));
      show(answer.images);
      put(mean, (at) => grey(answer.mean[at]));
      how.textContent = [`${answer.images.length} images drawn by ${answer.method}.`, ...answer.warnings].join(" ");
      bar.value = 1;
    });
    during(signal, async () => {
      const answer = await ask("row", question, signal);
      replace(probability, probabilityOf(answer, "image"));
      replace(changes, changesOf(answer, (change) => (painted[place(change.column)] = run.greys.indexOf(change.to), changed())));
      effectsFigure.hidden = !answer.complete;
      if (answer.complete) map(await ask("effects", question, signal));
    });
  }

  function map(answer) {
    const best = answer.log_ratios.map((row, d) => Math.max(...row.map((ratio, v) => (answer.labels[v] === answer.values[d] ? -Infinity : ratio === null ? -99 : ratio))));
    const most = Math.max(...best.map(Math.abs).filter((each) => each < 50), 0.5);
    put(effects, (at) => diverging(best[at] / most));
  }

  function show(images) {
    const levels = images.map((text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)));
    guess = levels[0];
    while (pictures.children.length > levels.length) pictures.lastChild.remove();
    levels.forEach((image, k) => {
      if (!pictures.children[k]) pictures.append(picture(k));
      const button = pictures.children[k];
      button.levels = image;
      put(button.firstChild, (at) => grey((painted[at] !== UNSET ? painted[at] : image[at]) / top));
    });
    draw();
  }

  function picture(k) {
    const small = el("canvas", { width, height, style: { "--ratio": `${width} / ${height}` } });
    const take = () => {
      button.levels.forEach((level, at) => (painted[at] = painted[at] === UNSET ? level : painted[at]));
      changed();
    };
    const button = el("button", { type: "button", className: "picture", aria: { label: `take completion ${k + 1}` }, on: { click: take } }, small);
    return button;
  }

  function put(target, color) {
    const pen = target.getContext("2d");
    const pixels = pen.createImageData(width, height);
    for (let at = 0; at < width * height; at++) {
      const [r, g, b] = color(at);
      pixels.data.set([r, g, b, 255], 4 * at);
    }
    pen.putImageData(pixels, 0, 0);
  }

  function stroke(event) {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * width);
    const row = Math.floor(((event.clientY - box.top) / box.height) * height);
    if (column < 0 || row < 0 || column >= width || row >= height) return;
    paint(row * width + column, brush);
  }

  function paint(at, level) {
    if (painted[at] === level) return;
    painted[at] = level;
    changed();
  }

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    stroke(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (event.buttons) stroke(event);
  });
  canvas.addEventListener("blur", draw);
  canvas.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
    if (cursor === null) cursor = 0;
    if (event.key in steps) {
      const [down, right] = steps[event.key];
      const row = Math.min(Math.max(Math.floor(cursor / width) + down, 0), height - 1);
      cursor = row * width + Math.min(Math.max((cursor % width) + right, 0), width - 1);
      draw();
      state.textContent = `pixel ${Math.floor(cursor / width)},${cursor % width}: ${painted[cursor] === UNSET ? "not painted" : name(painted[cursor])}`;
    } else if (event.key === " " || event.key === "Enter") paint(cursor, brush);
    else if (event.key === "Delete" || event.key === "Backspace") paint(cursor, UNSET);
    else return;
    event.preventDefault();
  });
}

const grey = (share) => [1, 1, 1].map(() => Math.round(255 * share));
const dark = () => matchMedia("(prefers-color-scheme: dark)").matches;

/** Blue above 0, orange below, the page's own ground between; `value` from -1 to 1. */
export function diverging(value) {
  const bounded = Math.max(-1, Math.min(1, value));
  const ends = dark() ? [[224, 133, 63], [38, 42, 49], [110, 168, 232]] : [[210, 105, 30], [242, 241, 237], [31, 95, 168]];
  const end = bounded < 0 ? ends[0] : ends[2];
  return ends[1].map((part, k) => Math.round(part + (end[k] - part) * Math.abs(bounded)));
}
