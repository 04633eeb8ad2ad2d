/** What each chart over time shows. Columns are those of the pass log. */

const LIMIT_COLOURS = {
  nothing: "grey", kv_blocks: "red", seats: "blue", budget: "orange", lora: "purple", encoder: "green",
};

const PANELS = [
  {
    id: "batch", kind: "stack", title: "Batch", note: "tokens a pass", height: 180, axis: true,
    series: [
      { key: "decode_tokens", label: "decode", colour: "blue" },
      { key: "prefill_tokens", label: "prefill", colour: "orange" },
      { key: "spec_tokens", label: "drafts", colour: "green" },
    ],
  },
  {
    id: "budget", kind: "lines", title: "Token budget", note: "tokens of each pass; stranded: left when a preemption closed admission", height: 130,
    series: [
      { key: "tokens_scheduled", label: "scheduled", colour: "blue" },
      { key: "budget_stranded", label: "stranded", colour: "purple", isDots: true },
    ],
    rule: { label: "budget", of: (run) => run.points.column("token_budget").reduce((a, b) => Math.max(a, b), 0) },
  },
  { id: "limit", kind: "stack", title: "Held back by", note: "passes by their binding limit", height: 74, isShare: true, series: [] },
  { id: "preempted", kind: "marks", title: "Preemptions", key: "preempted", what: "requests evicted", colour: "red" },
  { id: "cancelled", kind: "marks", title: "Cancelled admissions", key: "admissions_cancelled", what: "admissions cancelled", colour: "purple" },
  {
    id: "kv", kind: "lines", title: "KV blocks", note: "after each pass", height: 140,
    series: [
      { key: "kv_blocks_used", label: "used", colour: "blue", fill: true },
      { key: "kv_blocks_cached", label: "hold a cached prefix", colour: "orange", dash: [6, 3] },
    ],
    rule: { label: "pool", of: (run) => run.rules.pool },
  },
  {
    id: "running", kind: "lines", title: "Running", note: "requests, after schedule()", height: 110,
    series: [
      { key: "running", label: "running", colour: "blue", fill: true },
      { key: "seats_held_by_sessions", label: "seats held by sessions", colour: "green", dash: [6, 3] },
    ],
    rule: { label: "seats", of: (run) => run.rules.seats },
  },
  {
    id: "waiting", kind: "lines", title: "Waiting", note: "requests in the two queues, after schedule()", height: 110,
    series: [
      { key: "waiting", label: "waiting", colour: "red", fill: true },
      { key: "skipped_waiting", label: "skipped waiting", colour: "purple", dash: [6, 3] },
    ],
  },
  {
    id: "duration", kind: "lines", title: "Time of a pass", note: "as the runner reported it", height: 110, axis: true, isTime: true,
    series: [{ key: "duration_ns", label: "duration", colour: "blue" }],
  },
];

/** The panels for these runs: series that are zero throughout are left out. */
function panelsFor(runs) {
  const isSeen = ({ key }) => runs.some((run) => run.points.column(key).some((value) => value > 0));
  return PANELS.map((panel) => {
    if (panel.kind === "marks") return panel;
    if (!panel.isShare) return { ...panel, series: panel.series.filter((each, at) => at === 0 || isSeen(each)) };
    const labels = [...new Set(runs.flatMap((run) => run.labels.binding_limit))];
    const order = Object.keys(LIMIT_COLOURS);
    labels.sort((a, b) => order.indexOf(a) - order.indexOf(b));
    return { ...panel, series: labels.map((label) => ({ key: `limit:${label}`, label, colour: LIMIT_COLOURS[label] ?? "sky" })) };
  });
}
