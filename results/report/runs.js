/** Starts the page about runs. */

let report;

async function unpackRun(run) {
  const [points, table] = await Promise.all([unpack(run.points), unpack(run.slices)]);
  const [start, lag] = [points.column("start_ns"), points.column("lag_ns")];
  points.add("begin_ns", start.map((each, row) => each + lag[row])); // when its work began
  return { ...run, points, slices: { ...run.slices, table }, levels: levelsOf(points) };
}

function startPanels(runs, view) {
  const place = document.getElementById("panels");
  place.style.setProperty("--runs", runs.length);
  const groups = panelsFor(runs).map((panel) => {
    const group = { panel, runs, top: 0 };
    const make = panel.kind === "marks" ? markLane : timeChart;
    group.charts = runs.map((run) => make(panel, run, view, group));
    const totals = () => runs.map((run) => `${runs.length > 1 ? `${run.letter}: ` : ""}${markTotals(panel, run)}`).join("; ");
    group.note = element("small", {}, panel.kind === "marks" ? totals() : panel.note);
    const title = element("h3", {}, `${panel.title} `, group.note);
    const boxes = group.charts.map(({ box }) => element("div", {}, box));
    place.append(element("div", { class: "panel" }, title, element("div", { class: "panel-runs" }, ...boxes)));
    return group;
  });
  const show = () => {
    for (const run of runs) [run.steps, run.parts] = [stepsOf(run, view), slicesOf(run, view)];
    for (const group of groups) showGroup(group);
    showDetail(runs);
  };
  view.listen(show);
  show();
}

/** All runs of a panel share one scale, so that their heights can be compared. */
function showGroup(group) {
  const { panel, charts, runs } = group;
  if (panel.kind === "marks") {
    charts.forEach((lane) => lane.show());
    return;
  }
  charts.forEach((chart) => chart.take());
  group.top = panel.isShare ? 1 : topOf(panel, runs, Math.max(...charts.map((chart) => chart.highest())));
  charts.forEach((chart) => chart.draw());
  if (panel.kind === "stack") group.note.textContent = `${panel.note}; ${runs.every(drawsPasses) ? "each pass" : "means over slices of time"}`;
}

function topOf(panel, runs, highest) {
  const rules = panel.rule ? runs.map((run) => panel.rule.of(run) ?? 0) : [];
  const near = rules.filter((rule) => highest >= rule * RULE_FROM);
  return Math.max(highest * 1.05, ...near.map((rule) => rule * 1.02));
}

function showDetail(runs) {
  const drawn = runs.reduce((sum, run) => sum + run.steps.passes, 0);
  const isComplete = runs.every((run) => run.steps.isComplete);
  const text = isComplete ? `every one of ${count(drawn)} passes drawn` : `${count(drawn)} passes drawn, peaks kept`;
  document.getElementById("detail").textContent = `· ${text}`;
}

async function start() {
  startTheme();
  report = JSON.parse(document.getElementById("data").textContent);
  const runs = await Promise.all(report.runs.map(unpackRun));
  report.runs = runs;
  const from = Math.min(...runs.map((run) => run.points.column("begin_ns")[0]));
  const to = Math.max(...runs.map((run) => endOf(run, run.points.rows - 1)));
  const view = windowOver(from / 1e9, to / 1e9);
  startPanels(runs, view);
  startToolbar(view);
  startRow(view);
  startCurves(runs);
  document.body.dataset.ready = "true";
}

start().catch(showFault);
