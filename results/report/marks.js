/** A lane of marks: passes that evicted requests, or in which admissions were cancelled. */

const MARK_WIDTH = 7;
const LANE_HEIGHT = 26;

function markLane(panel, run, view, group) {
  const lane = element("div", { class: "lane", role: "group", "aria-label": `${panel.title}, run ${run.letter}: a mark each, the arrow keys go from one to the next`, style: `--c: var(--${panel.colour})`, "data-panel": panel.id, "data-run": run.letter, "data-letter": run.letter });
  const values = run.points.column(panel.key);
  const rows = rowsWhere(values, (value) => value > 0);
  const show = () => {
    const groups = weighed(marksWithin(run, rows, view, isPrinting ? widthOf(lane, group.runs.length) - AXIS - RIGHT : lane.clientWidth), values);
    const most = Math.max(...groups.map((group) => group.sum), 1);
    const marks = groups.map((group) => markOf(panel, run, group, most));
    if (marks.length) onlyStop(marks, marks[0]);
    lane.replaceChildren(...(marks.length ? marks : [element("span", { class: "lane-none" }, "none here")]));
  };
  arrowKeys(lane);
  new ResizeObserver(show).observe(lane);
  repaints.push(show); // a mark may be chosen, and paper may be narrower
  return { box: lane, show };
}

/** Marks that would touch are one; its pass is the one with most of what is marked. */
function marksWithin(run, rows, view, width) {
  const begin = run.points.column("begin_ns");
  const groups = [];
  const scale = width / (view.to - view.from);
  for (let at = firstAfter(rows, begin, view.from * 1e9 - 1); at < rows.length; at += 1) {
    const x = (begin[rows[at]] / 1e9 - view.from) * scale;
    if (x > width) break;
    const last = groups[groups.length - 1];
    if (last && x - last.x < MARK_WIDTH) last.rows.push(rows[at]);
    else groups.push({ x, rows: [rows[at]] });
  }
  return groups;
}

function markOf(panel, run, group, most) {
  const height = Math.max(5, LANE_HEIGHT * Math.sqrt(group.sum / most));
  const where = clock(run.points.column("start_ns")[group.heaviest] / 1e9);
  const passes = group.rows.length === 1 ? "1 pass" : `${count(group.rows.length)} passes`;
  const label = `${where}: ${count(group.sum)} ${panel.what} in ${passes}`;
  const mark = element("button", { type: "button", style: `left: ${group.x}px; height: ${height}px`, "aria-label": label, title: label, "aria-pressed": String(chosenPass.run === run && group.rows.includes(chosenPass.row)) });
  mark.addEventListener("click", () => openPass(run, group.heaviest, mark));
  return mark;
}

/** Sums and the heaviest pass of each group. */
function weighed(groups, values) {
  for (const group of groups) {
    group.sum = group.rows.reduce((sum, row) => sum + values[row], 0);
    group.heaviest = group.rows.reduce((best, row) => (values[row] > values[best] ? row : best));
  }
  return groups;
}

/** How many there are, and how many of their passes the page holds. */
function markTotals(panel, run) {
  const values = run.points.column(panel.key);
  let [sum, passes] = [0, 0];
  for (const value of values) if (value > 0) [sum, passes] = [sum + value, passes + 1];
  const part = run.marks_held < run.marks ? ` (of ${count(run.marks)} passes with marks this page holds ${count(run.marks_held)}, the heaviest of every stretch)` : "";
  return sum ? `${count(sum)} in ${count(passes)} passes${part}` : "none";
}
