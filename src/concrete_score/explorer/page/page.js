// Begins the page: what the run is decides which view is shown.
import { count, el, replace, say } from "./parts.js";
import { showImages } from "./image.js";
import { showSequences } from "./sequence.js";
import { showTable } from "./table.js";

const VIEWS = { table: showTable, image: showImages, sequence: showSequences };

async function begin() {
  const run = await (await fetch("run.json")).json();
  document.title = `${run.run || "a model"} – explore`;
  replace(document.getElementById("title"), run.run || "a model");
  const facts = [`model ${run.model}`, `${count(run.sites)} ${run.site_noun}`, `concrete-score ${run.version}`];
  replace(document.getElementById("facts"), facts.map((fact) => el("span", {}, fact)));
  VIEWS[run.view](run, document.getElementById("main"));
  Object.assign(document.documentElement.dataset, { waiting: document.documentElement.dataset.waiting || "", ready: "1" });
}

begin().catch(() => say("the run could not be shown: csm explore has ended, or cannot be reached"));
