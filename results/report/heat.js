/** The heat map: a table of buttons, coloured by one metric over two of the flags. */

/* Cividis (Nunez, Anderton, Renslow: PLOS ONE 13(7), 2018): even for any colour vision. */
const CIVIDIS = [[0, 34, 78], [65, 77, 107], [124, 123, 120], [188, 175, 111], [254, 232, 56]];

function cividis(share) {
  const place = Math.min(share, 0.9999) * (CIVIDIS.length - 1);
  const low = Math.floor(place);
  return CIVIDIS[low].map((from, at) => Math.round(from + (CIVIDIS[low + 1][at] - from) * (place - low)));
}

function metricText(metric, value) {
  if (value == null) return "-";
  if (metric.unit === "ns") return clock(value / 1e9);
  if (metric.unit === "share") return `${(value * 100).toFixed(1)} %`;
  return count(value);
}

/** 0 for the worst and 1 for the best; by logarithm where values span decades. */
function goodness(metric, values) {
  const known = values.filter((value) => value != null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const isLog = low > 0 && high / low > 30;
  const at = isLog ? Math.log : (value) => value;
  const of = (value) => {
    if (high === low) return 0.5;
    const share = (at(value) - at(low)) / (at(high) - at(low));
    return metric.better === "lower" ? 1 - share : share;
  };
  return { of, low, high, isLog };
}

function startHeat(sweep, choose) {
  const [metricOf, rowsOf, columnsOf] = [
    select("Colour", sweep.metrics.map((metric) => metric.title), preferred(sweep, ["goodput.share", "ttft_ns.p99"])),
    select("Down", sweep.axes.map((axis) => axis.label), 0),
    select("Across", sweep.axes.map((axis) => axis.label), Math.min(1, sweep.axes.length - 1)),
  ];
  const start = firstShown(sweep);
  const others = sweep.axes.map((axis, at) => select(axis.label, axis.values, start ? axis.values.indexOf(start.flags[at]) : 0));
  const picks = [metricOf, rowsOf, columnsOf, ...others];
  document.getElementById("heat-choices").append(...picks.map((pick) => pick.box));
  const draw = () => {
    const [rows, columns] = [rowsOf.chosen(), columnsOf.chosen()];
    others.forEach((other, at) => { other.box.hidden = at === rows || at === columns; });
    const fixed = others.map((other, at) => (at === rows || at === columns ? null : sweep.axes[at].values[other.chosen()]));
    drawHeat(sweep, metricOf.chosen(), rows, columns, fixed, choose);
  };
  picks.forEach((pick) => pick.listen(draw));
  draw();
}

/** A point that the first map should hold, where most of the plane is empty; none of a whole grid. */
function firstShown(sweep) {
  const whole = sweep.axes.reduce((size, axis) => size * axis.values.length, 1);
  return sweep.points.length < whole ? sweep.points.find(({ front }) => front) : undefined;
}

function drawHeat(sweep, metricAt, rows, columns, fixed, choose) {
  const metric = sweep.metrics[metricAt];
  const good = goodness(metric, sweep.points.map((point) => point.values[metricAt]));
  const across = rows === columns ? [null] : sweep.axes[columns].values;
  const label = element("th", { colspan: across.length, scope: "colgroup" }, rows === columns ? "" : sweep.axes[columns].label);
  const names = across.map((value) => element("th", { scope: "col" }, value ?? ""));
  const head = [[element("td"), label], [element("th", { scope: "col" }, sweep.axes[rows].label), ...names]].map((cells) => element("tr", {}, ...cells));
  const body = sweep.axes[rows].values.map((down) => element("tr", {}, element("th", { scope: "row" }, down), ...across.map((value) => {
    const wanted = fixed.map((each, at) => (at === rows ? down : at === columns ? value : each));
    const point = sweep.points.find(({ flags }) => flags.every((flag, at) => flag === wanted[at]));
    return element("td", {}, point ? heatCell(metric, metricAt, good, point, choose) : "");
  })));
  const table = element("table", { class: "heat", "aria-label": metric.title }, element("thead", {}, ...head), element("tbody", {}, ...body));
  const buttons = [...table.querySelectorAll("button")];
  if (buttons.length) onlyStop(buttons, buttons[0]);
  gridKeys(table, across.length);
  document.getElementById("heat-map").replaceChildren(table);
  heatScale(metric, good);
}

function heatCell(metric, metricAt, good, point, choose) {
  const value = point.values[metricAt];
  const text = point.failure ? "failed" : metricText(metric, value);
  const button = element("button", { type: "button", "aria-label": `${pointName(point)}: ${metric.title} ${text}${point.front ? ", on the front" : ""}` }, text, point.front ? " ●" : "");
  if (value == null) button.className = "none";
  else {
    const colours = cividis(good.of(value));
    const isDark = colours[0] * 0.299 + colours[1] * 0.587 + colours[2] * 0.114 < 118;
    button.style.cssText = `--cell: rgb(${colours.join(" ")}); --on-cell: ${isDark ? "#fff" : "#000"}`;
  }
  button.addEventListener("click", () => choose(point, button, "heat-point"));
  return button;
}

function heatScale(metric, { low, high, isLog }) {
  const [worst, best] = metric.better === "lower" ? [high, low] : [low, high];
  const stops = CIVIDIS.map((each) => `rgb(${each.join(" ")})`).join(", ");
  const words = metric.better ? ["worst", "best"] : ["lowest", "highest"];
  document.getElementById("heat-scale").replaceChildren(
    `${words[0]} ${metricText(metric, worst)} `,
    element("span", { class: "scale", style: `background: linear-gradient(90deg, ${stops})`, "aria-hidden": "true" }),
    ` ${words[1]} ${metricText(metric, best)}${isLog ? " (by logarithm)" : ""}. ● no other point beats it in TTFT p99, TPOT p99 and output tokens/s at once.`,
  );
}

/** Arrow keys in two directions. */
function gridKeys(table, width) {
  const cells = [...table.querySelectorAll("tbody td")];
  table.addEventListener("keydown", (event) => {
    const at = cells.indexOf(document.activeElement.closest("td"));
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: width, ArrowUp: -width }[event.key];
    if (at < 0 || !step) return;
    let place = at + step;
    while (cells[place] && !cells[place].firstElementChild) place += step; /* a search leaves cells empty */
    if (!cells[place]) return;
    event.preventDefault();
    const next = cells[place].firstElementChild;
    onlyStop([...table.querySelectorAll("button")], next);
    next.focus();
  });
}
