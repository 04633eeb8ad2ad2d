/** The row of a pass, at the bottom of the window. */

const chosenPass = { run: null, row: -1, opener: null };

function openPass(run, row, opener) {
  Object.assign(chosenPass, { run, row, opener: opener ?? chosenPass.opener });
  const drawer = document.getElementById("row");
  const pass = run.points.column("pass")[row];
  const title = document.getElementById("row-title");
  title.textContent = `${report.runs.length > 1 ? `Run ${run.letter}, pass` : "Pass"} ${count(pass)} at ${clock(run.points.column("start_ns")[row] / 1e9, 1e-3)}`;
  document.getElementById("row-body").replaceChildren(...rowGroups(run, row));
  drawer.hidden = false;
  document.body.classList.add("has-row");
  if (opener) title.focus({ preventScroll: true });
  repaint();
}

function closePass() {
  const { opener } = chosenPass;
  Object.assign(chosenPass, { run: null, row: -1, opener: null });
  document.getElementById("row").hidden = true;
  document.body.classList.remove("has-row");
  repaint();
  if (opener?.isConnected) opener.focus({ preventScroll: true });
}

function rowGroups(run, row) {
  const groups = Object.entries(report.groups).map(([title, names]) => {
    const facts = names.flatMap((name) => {
      const [unit, meaning] = report.columns[name];
      return [element("dt", { title: meaning }, name), element("dd", {}, valueOf(run, row, name, unit))];
    });
    return element("div", {}, element("h3", {}, title), element("dl", {}, ...facts));
  });
  const victims = victimsOf(run, row);
  if (victims.length) groups.push(element("div", { class: "wide" }, element("h3", {}, "Victims, in order of eviction"), victims.join(", ")));
  const command = `schedbench explain ${quoted(run.path)} --pass ${run.points.column("pass")[row]}`;
  groups.push(element("div", { class: "wide" }, "Each decision of this pass: ", element("code", {}, command)));
  return groups;
}

function valueOf(run, row, name, unit) {
  const value = run.points.column(name)[row];
  return run.labels[name] ? run.labels[name][value] : withUnit(value, unit);
}

/** The requests that were evicted: row of the trace, and its label where it has another. */
function victimsOf(run, row) {
  const evicted = run.points.column("preempted");
  if (!evicted[row]) return [];
  let place = 0;
  for (let at = 0; at < row; at += 1) if (evicted[at] > 0) place += 1;
  return run.victims[place].map((victim) => {
    const label = run.ids[victim];
    return label === undefined || label === String(victim) ? `row ${victim}` : `row ${victim} (${label})`;
  });
}

function startRow(view) {
  const isMark = (run, row) => run.points.column("preempted")[row] > 0 || run.points.column("admissions_cancelled")[row] > 0;
  const go = (step, accept) => {
    const { run } = chosenPass;
    for (let row = chosenPass.row + step; row >= 0 && row < run.points.rows; row += step) {
      if (!accept(run, row)) continue;
      bringIntoView(view, run.points.column("begin_ns")[row] / 1e9);
      openPass(run, row);
      say(document.getElementById("row-title").textContent);
      return;
    }
    say(step < 0 ? "none before" : "none after");
  };
  const actions = {
    before: () => go(-1, () => true),
    after: () => go(1, () => true),
    "mark-before": () => go(-1, isMark),
    "mark-after": () => go(1, isMark),
    zoom: () => {
      const { run, row } = chosenPass;
      const [begin, duration] = ["begin_ns", "duration_ns"].map((name) => run.points.column(name)[row] / 1e9);
      view.set(begin - 50 * duration, begin + 51 * duration);
    },
    close: closePass,
  };
  for (const button of document.querySelectorAll("[data-row]")) {
    button.addEventListener("click", actions[button.dataset.row]);
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && chosenPass.run) closePass();
  });
}

function bringIntoView(view, time) {
  if (time >= view.from && time <= view.to) return;
  const half = (view.to - view.from) / 2;
  view.set(time - half, time + half);
}
