/** Which of the passes in the page a window of time draws: all of them, or a choice (thin.py). */

const MOST_DRAWN = 9000;

function levelsOf(points) {
  const [rank, begin, pass] = ["rank", "begin_ns", "pass"].map((name) => points.column(name));
  const finest = rank.reduce((highest, each) => Math.max(highest, each), 0);
  const choices = new Map();
  const choice = (level) => {
    if (!choices.has(level)) {
      choices.set(level, rowsWhere(rank, (each) => each <= level));
    }
    return choices.get(level);
  };
  return {
    /** The finest choice that is not too much to draw, with one pass beyond either edge. */
    within(from, to) {
      for (let level = finest; ; level -= 1) {
        const rows = choice(level);
        const first = Math.max(0, firstAfter(rows, begin, from) - 1);
        const last = Math.min(rows.length, firstAfter(rows, begin, to) + 1);
        if (last - first > MOST_DRAWN && level > 0) continue;
        const drawn = rows.subarray(first, last);
        const between = drawn.length ? pass[drawn[drawn.length - 1]] - pass[drawn[0]] + 1 : 0;
        return { rows: drawn, isComplete: between === drawn.length };
      }
    },
    /** The row of the last pass that began by then. */
    at(time) {
      const rows = choice(finest);
      return rows[Math.max(0, firstAfter(rows, begin, time) - 1)];
    },
  };
}

/** The rows whose value is accepted. */
function rowsWhere(values, accepts) {
  const rows = new Uint32Array(values.length);
  let count = 0;
  for (let row = 0; row < values.length; row += 1) if (accepts(values[row])) rows[count++] = row;
  return rows.slice(0, count);
}

/** Where in `rows` the first one stands that began after `time`. */
function firstAfter(rows, begin, time) {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (begin[rows[middle]] > time) high = middle;
    else low = middle + 1;
  }
  return low;
}
