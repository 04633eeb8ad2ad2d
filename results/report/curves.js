/** Latency by percentile, a line a run. Shares are spaced by their nines, so tails are wide. */

const SHARES = { 0.30103: "50 %", 1: "90 %", 2: "99 %", 3: "99.9 %", 4: "99.99 %", 5: "99.999 %" };
const [CURVE_HEIGHT, CURVE_RIGHT] = [220, 26];
const PRINTED_CURVES = 2; // beside each other on paper
const SHARE_WIDTH = 58; // pixels that its label takes
const LOWEST = 1e-4; // of the highest value: what is below is cut off
const RUN_COLOURS = ["blue", "red", "green", "purple", "orange", "sky"];
const RUN_DASHES = [undefined, [8, 4], [3, 3], [12, 4, 3, 4], [6, 2], [2, 2]];

function startCurves(runs) {
  const place = document.getElementById("curves");
  const titles = Object.entries(report.latencies);
  const shown = titles.filter(([key]) => runs.some((run) => run.curves[key].n));
  place.append(...shown.map(([key, title]) => latencyChart(key, title, runs)));
  if (runs.length < 2) return;
  const names = runs.map((run, at) => element("li", {}, swatch({ colour: RUN_COLOURS[at], dash: RUN_DASHES[at] }), `${run.letter} ${run.name}`));
  document.getElementById("runs-legend").append(...names);
}

function latencyChart(key, title, runs) {
  const plot = element("div", { class: "plot" });
  const values = runs.map(() => element("b"));
  const where = element("li");
  const items = runs.map((run, at) => element("li", {}, runs.length > 1 ? `${run.letter} ` : "", values[at]));
  const box = element("div", { class: "chart", "data-curve": key }, element("h3", {}, title), element("ul", { class: "legend" }, where, ...items), plot);
  const tables = runs.map(({ curves }) => [curves[key].nines, curves[key].values_ns.map((value) => Math.max(value, 1) / 1e9)]);
  const data = uPlot.join(tables.filter(([x]) => x.length));
  const present = runs.filter((run) => run.curves[key].n);
  const show = (chart) => {
    const at = chart?.cursor.left >= 0 ? chart.cursor.idx : null;
    where.textContent = at == null ? "p99" : `${+((1 - 10 ** -data[0][at]) * 100).toPrecision(5)} % within`;
    runs.forEach((run, place) => {
      const { p99_ns: p99 } = run.curves[key];
      values[place].textContent = clock(at != null ? valueAt(run.curves[key], data[0][at]) : p99 && p99 / 1e9);
    });
  };
  const chart = new uPlot(curveOptions(present, runs, show), data, plot);
  keepWidth(chart, plot, CURVE_HEIGHT, PRINTED_CURVES);
  show(null);
  return box;
}

/** The value at the first share held that is not below: what so many stay within. */
function valueAt({ nines, values_ns: values }, wanted) {
  const at = nines.findIndex((each) => each >= wanted - 1e-9);
  return values.length ? values[at < 0 ? values.length - 1 : at] / 1e9 : null;
}

/** Where lines go on an axis of logarithms: 1, 2, 5, 10, or 1, 10, 100 over a wide range. */
function roundValues(low, high) {
  const digits = high / low > 100 ? [1] : [1, 2, 5];
  const found = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1) {
    found.push(...digits.map((digit) => digit * 10 ** power).filter((value) => value >= low && value <= high));
  }
  return found.length > 1 ? found : [0, 1, 2, 3].map((step) => +(low + ((high - low) * (step + 0.5)) / 4).toPrecision(2));
}

/** The shares whose labels do not run into the one before; the others keep their line. */
function labelled(chart, splits) {
  let last = -SHARE_WIDTH;
  const width = chart.width - AXIS - CURVE_RIGHT; // not asked for: it may be about to change
  return splits.map((each) => {
    const x = (each / chart.scales.x.max) * width;
    if (x - last < SHARE_WIDTH) return null;
    last = x;
    return each;
  });
}

function latencyLabel(seconds) {
  const [scale, unit] = seconds >= 1 ? [1, "s"] : seconds >= 1e-3 ? [1e3, "ms"] : [1e6, "µs"];
  return `${(+(seconds * scale).toPrecision(3)).toLocaleString("en-US")} ${unit}`;
}

function curveOptions(present, runs, onCursor) {
  const axis = { stroke: () => colour("quiet"), grid: { stroke: () => colour("grid"), width: 1 }, ticks: { show: false } };
  const shares = Object.keys(SHARES).map(Number).sort((a, b) => a - b);
  return {
    width: 400,
    height: CURVE_HEIGHT,
    legend: { show: false },
    padding: [8, CURVE_RIGHT, 0, 0],
    cursor: { drag: { x: false, y: false }, y: false, sync: { key: "curves", scales: ["x", null] } },
    scales: { x: { time: false, range: (chart, low, high) => [0, Math.max(high, 1)] }, y: { distr: 3, range: (chart, low, high) => [Math.max(low, high * LOWEST) / 1.15, high * 1.15] } },
    axes: [
      { ...axis, size: 26, splits: (chart, at, low, high) => shares.filter((each) => each <= high), filter: labelled, values: (chart, splits) => splits.map((each) => SHARES[each] ?? "") },
      { ...axis, size: AXIS, splits: (chart, at, low, high) => roundValues(low, high), filter: (chart, splits) => splits, values: (chart, splits) => splits.map(latencyLabel) },
    ],
    series: [{}, ...present.map((run) => ({
      label: run.letter,
      stroke: () => colour(RUN_COLOURS[runs.indexOf(run)]),
      width: 2,
      dash: RUN_DASHES[runs.indexOf(run)],
      spanGaps: true,
      points: { show: false },
    }))],
    hooks: { setCursor: [onCursor] },
  };
}
