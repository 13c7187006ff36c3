// Tables: a card a column. To press a bar or to type sets the column; all others follow.
import { Turn, ask, changesOf, count, during, el, label, panel, percent, probabilityOf, replace, roving, say } from "./parts.js";

const HOW = {
  enumeration: "Exact: every way to fill the other columns was counted.",
  closed_form: "Exact: the model's own conditionals.",
  none: "Every column is set.",
};
const SIGNS = { ">=": "≥", "<=": "≤", "!=": "≠" };
const FILTERED = 12; // columns from which on they can be searched

export function showTable(run, main) {
  const given = new Map(run.columns.map((column) => [column.name, []]));
  const turn = new Turn();
  const cards = new Map(run.columns.map((column) => [column.name, new Card(column, run, set)]));
  const view = build(run, cards, { clear: () => setAll([]) });
  replace(main, view.root);
  for (const each of run.start) given.get(each.column).push({ operator: each.operator, values: each.values });
  refresh();

  function set(name, conditions) {
    given.set(name, conditions);
    refresh();
  }

  function setAll(pairs) {
    for (const name of given.keys()) given.set(name, []);
    for (const [name, conditions] of pairs) if (given.has(name)) given.set(name, conditions);
    refresh();
  }

  function told() {
    return [...given].flatMap(([column, conditions]) => conditions.map((each) => ({ column, ...each })));
  }

  function refresh() {
    say("");
    const signal = turn.begin();
    const question = { given: told() };
    for (const [name, card] of cards) card.showSet(given.get(name));
    replace(view.chips, chips());
    view.clear.disabled = !question.given.length;
    const started = performance.now();
    during(signal, async () => {
      const answer = await ask("conditionals", question, signal);
      for (const column of answer.columns) cards.get(column.column).showBars(column);
      view.how.textContent = how(answer, null);
      document.documentElement.dataset.answered = String(performance.now() - started);
      if (!answer.exact) {
        const doubt = await ask("doubt", question, signal);
        for (const each of doubt.columns) cards.get(each.column).showError(each.error);
        view.how.textContent = how(answer, Math.max(0, ...doubt.columns.map((each) => each.error)));
      }
    }, view.columns);
    during(signal, async () => {
      const answer = await ask("row", question, signal);
      replace(view.probability, probabilityOf(answer, "row"));
      replace(view.changes, changesOf(answer, (change) => set(change.column, [equal(change.to)])));
    }, view.answers);
    during(signal, async () => {
      const answer = await ask("draws", question, signal);
      replace(view.draws, drawn(answer));
    }, view.draws);
  }

  function chips() {
    const found = told();
    if (!found.length) return el("li", { className: "note" }, "Nothing is set: press a bar, or type a value.");
    return [...given].filter(([, conditions]) => conditions.length).map(([name, conditions]) =>
      el("li", { className: "chip" }, el("span", { title: name }, spelled(name, conditions)),
        el("button", { type: "button", aria: { label: `unset ${name}` }, on: { click: () => set(name, []) } }, "×")));
  }

  function drawn(answer) {
    const heads = answer.columns.map((name) => el("th", { scope: "col", title: name }, name));
    const rows = answer.rows.map((cells, at) => {
      const pairs = answer.columns.map((name, k) => [name, [equal(cells[k])]]);
      const use = el("button", { type: "button", className: "plain", aria: { label: `set row ${at + 1}` }, on: { click: () => setAll(pairs) } }, "set");
      const cell = (text, k) => el("td", { title: text, className: (given.get(answer.columns[k]) || []).length ? "given" : "" }, label(text));
      return el("tr", {}, el("td", {}, use), cells.map(cell));
    });
    const warnings = answer.warnings.map((text) => el("p", { className: "note" }, text));
    return [
      el("div", { className: "scroll", tabIndex: 0, aria: { role: "region", label: "example rows" } },
        el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, el("span", { className: "unseen" }, "set")), heads)), el("tbody", {}, rows))),
      ...warnings,
    ];
  }
}

const equal = (text) => ({ operator: "=", values: [text] });

function spelled(name, conditions) {
  return conditions.map(({ operator, values }) => `${name} ${SIGNS[operator] || operator} ${values.map(label).join(", ")}`).join(" and ");
}

function how(answer, error) {
  const warned = answer.warnings.length ? ` ${answer.warnings.join(" ")}` : "";
  if (answer.exact) return (HOW[answer.method] || `Exact, by ${answer.method.replaceAll("_", " ")}.`) + warned;
  const way = answer.draws ? `Counted in ${count(answer.draws)} draws (${answer.method})` : `Estimated by weighted draws (${answer.method})`;
  const known = error === null ? "; the error follows" : `; standard error of a bar at most ${(100 * error).toFixed(1)} %`;
  return `${way}${known}.${warned}`;
}

function build(run, cards, actions) {
  const how = el("p", { className: "note", aria: { live: "polite" }, data: { part: "how" } });
  const columns = el("div", { className: "cards" }, [...cards.values()].map((card) => card.root));
  const head = el("div", { className: "head" }, el("h2", {}, "Columns"), how);
  if (cards.size > FILTERED) head.append(search(cards));
  const chips = el("ul", { className: "chips", aria: { live: "polite" } });
  const clear = el("button", { type: "button", className: "button", on: { click: actions.clear } }, "Clear all");
  const probability = el("div", {});
  const changes = el("div", {});
  const draws = el("div", {});
  const set = panel("What is set", el("div", { className: "stack" }, chips, probability));
  set.querySelector(".head").append(clear);
  const better = panel("Best single changes", changes);
  better.classList.add("later");
  const aside = el("div", { className: "aside" }, set, better);
  const body = el("div", { className: "stack" }, el("section", { aria: { label: "Columns" } }, head, columns), panel("Example draws", draws));
  return { root: el("div", { className: "split" }, aside, body), how, columns, chips, clear, probability, changes, draws, answers: aside };
}

function search(cards) {
  const hide = (event) => {
    const wanted = event.target.value.toLowerCase();
    for (const [name, card] of cards) card.root.hidden = !name.toLowerCase().includes(wanted);
  };
  return el("label", {}, el("span", { className: "unseen" }, "Find a column"),
    el("input", { type: "search", className: "search", placeholder: "Find a column", on: { input: hide } }));
}

/** Conditions as they would be typed. */
function typing(conditions) {
  const [low, high] = conditions;
  if (conditions.length === 2 && low.operator === ">=" && high.operator.startsWith("<")) return `${low.values[0]}..${high.operator === "<" ? "<" : ""}${high.values[0]}`;
  return conditions.map(({ operator, values }) => (operator === "=" ? values[0] : `${operator} ${values.join(", ")}`)).join(" ");
}

let made = 0;

/** One column: its name, a field to set it with, and its distribution. */
class Card {
  constructor(column, run, set) {
    this.column = column;
    this.operators = [...run.operators];
    this.set = (conditions) => set(column.name, conditions);
    this.conditions = [];
    this.id = `column-${made++}`;
    this.error = el("span", { className: "kind" }, column.ranges ? column.kind : "");
    this.bars = el("div", { className: column.ranges ? "histogram" : "bars", aria: { role: "group", label: `values of ${column.name}` } });
    roving(this.bars);
    this.rest = el("p", { className: "note", hidden: true });
    this.read = el("div", { className: "ends", hidden: !column.ranges }, el("span", {}), el("span", {}), el("span", {}));
    const top = el("div", { className: "top" }, el("h3", { className: "long", title: column.name.slice(0, 500) }, column.name), this.error);
    this.root = el("section", { className: "card", aria: { label: column.name }, data: { column: column.name } }, top, this.field(), this.bars, this.read, this.rest);
    if (!column.ranges && column.values && column.values.length <= 24)
      this.showBars({ column: column.name, ranges: false, hidden: 0, rest: 0, bars: column.values.map((text) => ({ label: text, probability: 0, conditions: [equal(text)] })) });
  }

  /** Where values are many or numbers, a field: a value, or an operator and a value. */
  field() {
    const { column } = this;
    if (!column.ranges && column.values && column.values.length <= 24) return null;
    const placeholder = column.ranges ? "a value, ≥ 40, or 20..30" : "a value";
    this.input = el("input", { type: "text", id: this.id, placeholder, autocomplete: "off", on: { change: () => this.typed() } });
    const list = column.values ? el("datalist", { id: `${this.id}-list` }, column.values.map((value) => el("option", { value }))) : null;
    if (list) this.input.setAttribute("list", list.id);
    return el("div", { className: "field" }, el("label", { className: "unseen", htmlFor: this.id }, `Set ${column.name}`), this.input, list);
  }

  typed() {
    const text = this.input.value.trim();
    this.set(text === "" ? [] : this.parse(text));
  }

  parse(text) {
    if (this.column.values && this.column.values.includes(text)) return [equal(text)];
    const between = text.match(/^(.+?)\.\.(<?)(.+)$/);
    if (this.column.ranges && between) return [{ operator: ">=", values: [between[1].trim()] }, { operator: between[2] || "<=", values: [between[3].trim()] }];
    const plain = text.replace(/^≥/, ">=").replace(/^≤/, "<=").replace(/^≠/, "!=");
    const operator = this.operators.find((each) => each !== "in" && plain.startsWith(each));
    return operator ? [{ operator, values: [plain.slice(operator.length).trim()] }] : [equal(text)];
  }

  showSet(conditions) {
    this.conditions = conditions;
    this.root.classList.toggle("set", conditions.length > 0);
    if (this.input && document.activeElement !== this.input)
      this.input.value = typing(conditions);
    if (this.input && !conditions.length) this.input.value = "";
    this.error.textContent = this.column.ranges ? this.column.kind : "";
    for (const button of this.bars.children) this.press(button);
  }

  press(button) {
    const pressed = this.conditions.length > 0 && button.dataset.conditions === JSON.stringify(this.conditions);
    button.setAttribute("aria-pressed", String(pressed));
    if (this.conditions.length === 1 && this.conditions[0].operator === "=" && !this.column.ranges) this.fill(button, pressed ? 1 : 0);
  }

  fill(button, share) {
    button.dataset.probability = String(share);
    button.style.setProperty("--share", String(share));
    if (button.lastChild && button.lastChild.className === "share") button.lastChild.textContent = percent(share);
  }

  /** What the server says of a column that is not set to one value. */
  showBars(column) {
    const most = Math.max(...column.bars.map((bar) => bar.probability), 1e-12);
    const focused = [...this.bars.children].indexOf(document.activeElement);
    const same = this.bars.children.length === column.bars.length && column.bars.every((bar, k) => this.bars.children[k].dataset.label === bar.label);
    if (!same) replace(this.bars, column.bars.map((bar, at) => this.button(bar, at)));
    column.bars.forEach((bar, k) => this.showBar(this.bars.children[k], bar, most));
    if (!same && focused >= 0 && this.bars.children[focused]) this.bars.children[focused].focus();
    if (column.ranges) this.showEnds(column.bars);
    this.rest.hidden = column.hidden === 0 && column.rest < 0.0005;
    this.rest.textContent = column.hidden ? `${count(column.hidden)} other values: ${percent(column.rest)}` : `blank: ${percent(column.rest)}`;
  }

  button(bar, at) {
    const button = el("button", { type: "button", className: "bar", tabIndex: at === 0 ? 0 : -1, data: { label: bar.label } });
    button.addEventListener("click", () => {
      const conditions = JSON.parse(button.dataset.conditions);
      this.set(button.getAttribute("aria-pressed") === "true" ? [] : conditions);
    });
    if (this.column.ranges) {
      const point = () => (this.read.children[1].textContent = `${button.dataset.label}: ${percent(Number(button.dataset.probability))}`);
      const leave = () => (this.read.children[1].textContent = "");
      for (const event of ["mouseenter", "focus"]) button.addEventListener(event, point);
      for (const event of ["mouseleave", "blur"]) button.addEventListener(event, leave);
    } else button.append(el("span", { className: "name", title: bar.label.slice(0, 500) }, label(bar.label)), el("span", { className: "share" }));
    return button;
  }

  showBar(button, bar, most) {
    button.dataset.conditions = JSON.stringify(bar.conditions);
    button.dataset.probability = String(bar.probability);
    if (this.column.ranges) {
      button.style.setProperty("--height", String(bar.probability / most));
      button.setAttribute("aria-label", `${bar.label}: ${percent(bar.probability)}`);
    }
    this.fill(button, bar.probability);
    this.press(button);
  }

  showEnds(bars) {
    this.read.children[0].textContent = bars[0].label;
    this.read.children[2].textContent = bars.length > 1 ? bars[bars.length - 1].label : "";
  }

  showError(error) {
    if (this.conditions.length === 0 || this.column.ranges) this.error.textContent = `± ${(100 * error).toFixed(1)} %`;
  }
}
