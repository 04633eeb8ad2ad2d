/** Starts the page about a sweep. */

let sweep;

/** A labelled choice; `chosen()` is the place of the option. */
function select(label, options, at) {
  const list = element("select", { "aria-label": label }, ...options.map((option, place) => element("option", { value: place }, option)));
  list.value = String(at);
  return {
    box: element("label", {}, `${label} `, list),
    chosen: () => Number(list.value),
    listen: (listener) => list.addEventListener("change", listener),
  };
}

/** The place of the first of these metrics that the sweep has. */
function preferred({ metrics }, keys) {
  const found = keys.map((key) => metrics.findIndex((metric) => metric.key === key)).filter((at) => at >= 0);
  return found[0] ?? 0;
}

function pointName(point) {
  return point.flags.map((flag, at) => `${sweep.axes[at].label} ${flag}`).join(", ");
}

/** Show what became of a point, or of several that coincide. */
function choosePoint(chosen, button, place) {
  const points = Array.isArray(chosen) ? chosen : [chosen];
  for (const other of document.querySelectorAll("[aria-pressed]")) other.removeAttribute("aria-pressed");
  button.setAttribute("aria-pressed", "true");
  document.getElementById(place).replaceChildren(...points.flatMap(pointFacts));
}

function pointFacts(point) {
  const facts = sweep.metrics.map((metric, at) => [metric, point.values[at]]).filter(([, value]) => value != null);
  const rows = facts.flatMap(([metric, value]) => [element("dt", {}, metric.title), element("dd", {}, metricText(metric, value))]);
  const command = point.path ? [element("p", {}, "Its own report: ", element("code", {}, `schedbench report ${quoted(point.path)}`))] : [];
  return [
    element("h3", {}, pointName(point)),
    element("p", {}, point.failure ? `failed: ${point.failure}` : `held back by ${point.limit}${point.front ? "; on the front of TTFT p99, TPOT p99 and output tokens/s" : ""}`),
    element("dl", { class: "facts columns" }, ...rows),
    ...command,
  ];
}

function start() {
  startTheme();
  sweep = JSON.parse(document.getElementById("data").textContent);
  startHeat(sweep, choosePoint);
  startScatter(sweep, choosePoint);
  document.body.dataset.ready = "true";
}

try {
  start();
} catch (error) {
  showFault(error);
}
