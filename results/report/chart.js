/** One chart over time: a panel for one run, drawn by uPlot. */

const AXIS = 64; // room for the numbers on the left; the lanes of marks keep the same
const RIGHT = 14;
const WHOLE_STEPS = Array.from({ length: 13 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
const DOUBLE_CLICK = 250; // ms in which a second click makes it one, so that no pass is opened
const RULE_FROM = 0.35; // of a rule: below, the values would be too flat to see

function timeChart(panel, run, view, group) {
  const plot = element("div", { class: "plot" });
  const legend = legendOf(panel, run, group);
  const name = `${panel.title}${group.runs.length > 1 ? `, run ${run.letter}` : ""}`;
  const box = element("div", { class: "chart", tabindex: "0", role: "group", "aria-label": name, "aria-describedby": "keys", "data-panel": panel.id, "data-run": run.letter }, legend.list, plot);
  let drawn = [[], []];
  const chart = new uPlot(optionsOf(panel, run, view, group, (at) => legend.show(drawn, at)), [[], ...panel.series.map(() => [])], plot);
  const self = {
    box,
    highest: () => highestOf((panel.kind === "stack" ? stacked(drawn) : drawn).slice(1)),
    take() {
      drawn = drawnOf(panel, run);
    },
    draw() {
      const [x, ...series] = panel.kind === "stack" ? stacked(drawn) : drawn;
      chart.batch(() => {
        chart.setData([x, ...(panel.kind === "stack" ? series.reverse() : series)], false);
        chart.setScale("x", { min: view.from, max: view.to });
        chart.setScale("y", { min: 0, max: group.top || 1 });
      });
      legend.show(drawn, null, group.top);
    },
  };
  keepWidth(chart, plot, panel.height, group.runs.length);
  listenTo(chart, box, run, view, () => `${name}: ${legend.list.textContent}`);
  return self;
}

function optionsOf(panel, run, view, group, onCursor) {
  const isStack = panel.kind === "stack";
  const series = isStack ? [...panel.series].reverse() : panel.series;
  return {
    width: 600,
    height: panel.height,
    legend: { show: false },
    padding: [8, RIGHT, panel.axis ? 0 : 6, 0],
    cursor: {
      drag: { x: true, y: false, setScale: false },
      points: { show: !isStack, size: 6 },
      sync: { key: "time", scales: ["x", null], filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } },
      bind: { dblclick: () => view.whole },
    },
    scales: { x: { time: false, auto: false }, y: { auto: false } },
    axes: [timeAxis(panel), valueAxis(panel)],
    series: [{}, ...series.map((each) => ({
      label: each.label,
      stroke: () => colour(each.colour),
      fill: isStack ? () => colour(each.colour) : each.fill ? () => faded(each.colour, 0.15) : undefined,
      width: isStack ? 0 : 1.5,
      dash: each.dash,
      points: each.isDots ? { show: true, size: 4, width: 0, fill: () => colour(each.colour) } : { show: false },
      paths: each.isDots ? () => null : pathsOf(panel, run),
    }))],
    hooks: {
      setSelect: [(chart) => {
        const { left, width } = chart.select;
        if (width > 3) view.set(chart.posToVal(left, "x"), chart.posToVal(left + width, "x"));
        chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      }],
      setCursor: [(chart) => onCursor(chart.cursor.left < 0 ? null : chart.cursor.idx)],
      draw: [(chart) => drawRule(chart, panel, run, group), (chart) => drawChosen(chart, run)],
    },
  };
}

/** Steps, as a value holds for its pass; between passes that stand for others, straight lines. */
function pathsOf(panel, run) {
  const [steps, lines] = [uPlot.paths.stepped({ align: 1, alignGaps: 1 }), uPlot.paths.linear()];
  return (...given) => (panel.kind === "stack" || run.steps.isComplete ? steps : lines)(...given);
}

function timeAxis(panel) {
  const steps = [];
  for (let power = -6; power < 0; power += 1) steps.push(10 ** power, 2 * 10 ** power, 5 * 10 ** power);
  steps.push(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400);
  return {
    stroke: () => colour("quiet"),
    grid: { stroke: () => colour("grid"), width: 1 },
    ticks: { show: Boolean(panel.axis), stroke: () => colour("line"), size: 5 },
    size: panel.axis ? 26 : 0,
    space: 90,
    incrs: steps,
    values: (chart, splits, axis, space, step) => splits.map((value) => (panel.axis ? clock(value, step) : "")),
  };
}

function valueAxis(panel) {
  const text = panel.isShare ? (value) => `${Math.round(value * 100)} %` : panel.isTime ? (value) => clock(value) : shortCount;
  return {
    stroke: () => colour("quiet"),
    grid: { stroke: () => colour("grid"), width: 1 },
    ticks: { show: false },
    size: AXIS,
    space: panel.isShare ? 22 : 28,
    incrs: panel.isShare ? [0.5, 1] : panel.isTime ? undefined : WHOLE_STEPS,
    values: (chart, splits) => splits.map(text),
  };
}

/** A limit as a dashed line, if it is not far above all values; the legend names it. */
function drawRule(chart, panel, run, group) {
  const value = panel.rule?.of(run);
  if (!value || value > group.top) return;
  const { ctx, bbox } = chart;
  const y = Math.round(chart.valToPos(value, "y", true));
  ctx.save();
  ctx.strokeStyle = colour("text");
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([8 * devicePixelRatio, 5 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.restore();
}

/** A line at the pass whose row is open. */
function drawChosen(chart, run) {
  if (chosenPass.run !== run) return;
  const x = chart.valToPos(run.points.column("begin_ns")[chosenPass.row] / 1e9, "x", true);
  const { ctx, bbox } = chart;
  if (x < bbox.left || x > bbox.left + bbox.width) return;
  ctx.save();
  ctx.strokeStyle = colour("focus");
  ctx.lineWidth = 1.5 * devicePixelRatio;
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.restore();
}

/** The series by name, each with its value under the cursor, or its highest one in view. */
function legendOf(panel, run, group) {
  const values = panel.series.map(() => element("b"));
  const items = panel.series.map((each, at) => element("li", {}, swatch(each, panel.kind === "stack"), `${each.label} `, values[at]));
  if (group.runs.length > 1) items.unshift(element("li", {}, element("b", {}, run.letter)));
  const text = panel.isShare ? (value) => `${(value * 100).toFixed(0)} %` : panel.isTime ? (value) => clock(value) : count;
  const limit = panel.rule?.of(run);
  const rule = element("b");
  if (limit) items.push(element("li", {}, swatch({ colour: "text", dash: [6, 3] }), `${panel.rule.label} `, rule));
  return {
    list: element("ul", { class: "legend" }, ...items),
    show(drawn, at, top) {
      if (top) rule.textContent = `${count(limit)}${limit > top ? ", off the scale" : ""}`;
      values.forEach((value, place) => {
        const series = drawn[place + 1] ?? [];
        if (at != null) value.textContent = series[at] == null ? "-" : text(series[at]);
        else value.textContent = panel.kind === "stack" ? "" : `max ${text(highestOf([series]))}`;
      });
    },
  };
}

function swatch({ colour: name, dash, isDots }, isArea) {
  const kind = isArea ? "" : isDots ? " dot" : dash ? (dash[0] < 4 ? " line dotted" : " line dashed") : " line";
  return element("span", { class: `swatch${kind}`, style: `--c: var(--${name})`, "aria-hidden": "true" });
}

/** Click and keyboard of one chart. */
function listenTo(chart, box, run, view, reading) {
  let [pressed, waiting] = [0, 0];
  const openAt = (x) => openPass(run, run.levels.at(x * 1e9), box);
  chart.over.addEventListener("mousedown", (event) => { pressed = event.clientX; });
  chart.over.addEventListener("click", (event) => {
    clearTimeout(waiting);
    if (Math.abs(event.clientX - pressed) > 3 || event.detail > 1) return;
    const x = chart.posToVal(event.offsetX, "x");
    waiting = setTimeout(() => openAt(x), DOUBLE_CLICK);
  });
  const step = (by) => {
    const x = chart.data[0];
    const last = x.length - 1;
    const at = Math.min(last, Math.max(0, chart.cursor.left < 0 ? Math.round(last / 2) : chart.cursor.idx + by));
    const left = Math.min(chart.over.clientWidth - 1, Math.max(0, chart.valToPos(x[at], "x")));
    chart.setCursor({ left, top: chart.over.clientHeight / 2 });
    say(`${clock(x[at], (view.to - view.from) / 1000)}. ${reading()}`);
  };
  const middle = () => (chart.cursor.left < 0 ? (view.from + view.to) / 2 : chart.posToVal(chart.cursor.left, "x"));
  const keys = {
    ArrowLeft: () => step(-1),
    ArrowRight: () => step(1),
    PageUp: () => view.move(-0.5),
    PageDown: () => view.move(0.5),
    "+": () => view.zoom(0.5, middle()),
    "=": () => view.zoom(0.5, middle()),
    "-": () => view.zoom(2, middle()),
    0: view.whole,
    Enter: () => openAt(middle()),
  };
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
}
