/** The numbers that a window of time draws: passes as steps, or means over slices. */

const MOST_SLICES = 360;
const MOST_STEPS = 1500; // areas of more passes than that are drawn as slices

/** Passes as steps: where each begins, its row, and -1 where nothing ran. */
function stepsOf(run, view) {
  const [begin, pass, idle] = ["begin_ns", "pass", "idle_ns"].map((name) => run.points.column(name));
  const { rows, isComplete } = run.levels.within(view.from * 1e9, view.to * 1e9);
  const seen = ((view.to - view.from) * 1e9) / 1000; // a shorter gap is less than a pixel
  const steps = { x: [], row: [], isComplete, passes: rows.length };
  const put = (time, row) => {
    steps.x.push(time / 1e9);
    steps.row.push(row);
  };
  rows.forEach((row, at) => {
    const before = rows[at - 1];
    if (at && idle[row] > seen && pass[row] === pass[before] + 1) put(endOf(run, before), -1);
    put(begin[row], row);
  });
  const last = rows[rows.length - 1];
  if (last !== undefined) put(endOf(run, last), last);
  return steps;
}

/** When a pass ended, ns. */
function endOf(run, row) {
  return run.points.column("begin_ns")[row] + run.points.column("duration_ns")[row];
}

/** Sums over neighbouring slices, as many joined as it takes to have room for all. */
function slicesOf(run, view) {
  const { begin_ns: begin, width_ns: width, table } = run.slices;
  const first = Math.max(0, Math.floor((view.from * 1e9 - begin) / width));
  const last = Math.min(table.rows, Math.ceil((view.to * 1e9 - begin) / width));
  let joined = 1;
  while ((last - first) / joined > MOST_SLICES) joined *= 2;
  const from = first - (first % joined);
  const count = Math.max(0, Math.ceil((last - from) / joined));
  return {
    x: Array.from({ length: count + 1 }, (_, at) => (begin + (from + at * joined) * width) / 1e9),
    sums(key) {
      const sums = new Float64Array(count);
      if (!table.names.includes(key)) return sums;
      const values = table.column(key);
      for (let at = from; at < Math.min(from + count * joined, table.rows); at += 1) {
        sums[Math.floor((at - from) / joined)] += values[at];
      }
      return sums;
    },
  };
}

/** What a panel draws of a run: x, and one array a series, in their own values. */
function drawnOf(panel, run) {
  if (panel.kind === "lines") {
    const scale = panel.isTime ? 1e-9 : 1;
    return [run.steps.x, ...panel.series.map(({ key, isDots }) => {
      const values = run.points.column(key);
      return run.steps.row.map((row) => (row < 0 || (isDots && !values[row]) ? null : values[row] * scale));
    })];
  }
  if (drawsPasses(run)) return stepsOfAreas(panel, run);
  const passes = run.parts.sums("passes");
  const means = panel.series.map(({ key }) => {
    const sums = run.parts.sums(key);
    const values = Array.from(sums, (sum, at) => (passes[at] ? sum / passes[at] : null));
    return [...values, values[values.length - 1] ?? null];
  });
  return [run.parts.x, ...means];
}

/** Whether there is room for each pass; else areas are means over slices. */
function drawsPasses(run) {
  return run.steps.isComplete && run.steps.passes <= MOST_STEPS;
}

function stepsOfAreas(panel, run) {
  const limit = run.points.column("binding_limit");
  return [run.steps.x, ...panel.series.map(({ key, label }) => {
    if (!panel.isShare) {
      const values = run.points.column(key);
      return run.steps.row.map((row) => (row < 0 ? null : values[row]));
    }
    const code = run.labels.binding_limit.indexOf(label);
    return run.steps.row.map((row) => (row < 0 ? null : Number(limit[row] === code)));
  })];
}

/** Each series on top of those before it. */
function stacked([x, ...series]) {
  const sums = [];
  series.forEach((values, at) => {
    sums.push(values.map((value, i) => (value == null ? null : value + (at ? sums[at - 1][i] : 0))));
  });
  return [x, ...sums];
}

function highestOf(series) {
  let highest = 0;
  for (const values of series) for (const value of values) if (value > highest) highest = value;
  return highest;
}
