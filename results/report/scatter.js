/** Two metrics against each other: axes and front by uPlot, the points as buttons over it. */

const SCATTER_HEIGHT = 380;

function startScatter(sweep, choose) {
  const titles = sweep.metrics.map((metric) => metric.title);
  const across = select("Across", titles, preferred(sweep, ["tpot_ns.p99", "ttft_ns.p99"]));
  const up = select("Up", titles, preferred(sweep, ["output_tokens_per_s"]));
  document.getElementById("trade-choices").append(across.box, up.box);
  let chart = null;
  const draw = () => {
    chart?.destroy();
    chart = drawScatter(sweep, across.chosen(), up.chosen(), choose);
  };
  [across, up].forEach((pick) => pick.listen(draw));
  repaints.push(draw);
  new ResizeObserver(draw).observe(document.getElementById("scatter"));
}

function drawScatter(sweep, xAt, yAt, choose) {
  const place = document.getElementById("scatter");
  const known = sweep.points.filter((point) => point.values[xAt] != null && point.values[yAt] != null);
  const groups = coinciding(known, xAt, yAt);
  groups.forEach((group) => { group.isFront = !groups.some((other) => beats(sweep, other, group, xAt, yAt)); });
  const front = groups.filter((group) => group.isFront).sort((a, b) => a.x - b.x);
  const [xs, ys] = [groups.map((group) => group.x), groups.map((group) => group.y)];
  place.replaceChildren();
  return new uPlot({
    width: widthOf(place, 1),
    height: SCATTER_HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    padding: [14, 24, 0, 0],
    scales: { x: scaleFor(xs), y: scaleFor(ys) },
    axes: [axisFor(sweep.metrics[xAt], xs, 44, 90), axisFor(sweep.metrics[yAt], ys, 96, 40)],
    series: [{}, { stroke: () => colour("red"), width: 1, dash: [5, 4], points: { show: false } }],
    hooks: { ready: [(ready) => place.append(pointButtons(ready, groups, sweep.metrics[xAt], sweep.metrics[yAt], choose))] },
  }, [front.map((group) => group.x), front.map((group) => group.y)], place);
}

/** Points with the same values are one mark. */
function coinciding(points, xAt, yAt) {
  const groups = new Map();
  for (const point of points) {
    const key = `${point.values[xAt]} ${point.values[yAt]}`;
    if (!groups.has(key)) groups.set(key, { x: point.values[xAt], y: point.values[yAt], points: [] });
    groups.get(key).points.push(point);
  }
  return [...groups.values()].sort((a, b) => a.x - b.x || a.y - b.y);
}

function beats(sweep, one, other, xAt, yAt) {
  if (one === other) return false;
  const notWorse = (metric, a, b) => (metric.better === "higher" ? a >= b : a <= b);
  return notWorse(sweep.metrics[xAt], one.x, other.x) && notWorse(sweep.metrics[yAt], one.y, other.y);
}

function isWide(values) {
  const low = Math.min(...values);
  return low > 0 && Math.max(...values) / low > 30;
}

function scaleFor(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  if (isWide(values)) return { time: false, auto: false, distr: 3, range: () => [low / 1.3, high * 1.3] };
  const room = (high - low || Math.abs(high) || 1) * 0.07;
  return { time: false, auto: false, range: () => [low >= 0 ? Math.max(0, low - room) : low - room, high + room] };
}

function axisFor(metric, values, size, space) {
  const axis = {
    label: metric.title,
    labelSize: 22,
    size,
    space,
    stroke: () => colour("quiet"),
    grid: { stroke: () => colour("grid"), width: 1 },
    ticks: { show: false },
    values: (chart, splits) => splits.map((value) => (value == null ? "" : metricText(metric, value))),
  };
  if (!isWide(values)) return axis;
  return { ...axis, filter: (chart, splits) => splits, splits: (chart, at, low, high) => roundSteps(low, high) };
}

function roundSteps(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1) {
    found.push(...[1, 3].map((digit) => digit * 10 ** power).filter((value) => value >= low && value <= high));
  }
  return found;
}

function pointButtons(chart, groups, across, up, choose) {
  const { left, top, width, height } = chart.over.style;
  const box = element("div", { class: "points", role: "group", "aria-label": "Points", style: `left: ${left}; top: ${top}; width: ${width}; height: ${height}` });
  const buttons = groups.map((group) => {
    const names = group.points.map(pointName);
    const label = `${names.join(" and ")}: ${across.title} ${metricText(across, group.x)}, ${up.title} ${metricText(up, group.y)}${group.isFront ? ", on the front" : ""}`;
    const button = element("button", { type: "button", "aria-label": label, title: label, class: group.isFront ? "front" : null, style: `left: ${chart.valToPos(group.x, "x")}px; top: ${chart.valToPos(group.y, "y")}px` });
    button.addEventListener("click", () => choose(group.points, button, "trade-point"));
    return button;
  });
  if (buttons.length) onlyStop(buttons, buttons[0]);
  box.append(...buttons);
  arrowKeys(box);
  return box;
}
