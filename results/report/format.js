/** Numbers as people read them; results/units.py does the same for tables. */

const FORMATS = [0, 1, 2].map((digits) => new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
const SHORT = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 6 });

function count(value) {
  if (value == null) return "-";
  const digits = Number.isInteger(value) || Math.abs(value) >= 1000 ? 0 : Math.abs(value) < 10 ? 2 : 1;
  return FORMATS[digits].format(value);
}

/** On an axis: 1,200 becomes 1.2k where there is little room. */
function shortCount(value) {
  const size = Math.abs(value);
  if (size >= 1e9) return `${+(value / 1e9).toPrecision(3)}G`;
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  return SHORT.format(value);
}

/** A time as a clock has it: 3h 05m, 12m 40s, 14.2 s, 8.5 ms; `step`, the smallest that matters. */
function clock(seconds, step = 0) {
  if (seconds == null) return "-";
  const size = Math.abs(seconds);
  if (size < 1e-9) return "0";
  if (size < 1e-3 && step < 1e-4) return `${+(seconds * 1e6).toPrecision(4)} µs`;
  if (size < 1 && step < 0.1) return `${+(seconds * 1e3).toPrecision(4)} ms`;
  const digits = step ? Math.min(6, Math.max(0, -Math.floor(Math.log10(step) + 1e-9))) : size < 60 ? 2 : 0;
  return size < 60 ? `${seconds.toFixed(digits)} s` : longClock(size, digits);
}

function longClock(seconds, digits) {
  const whole = +seconds.toFixed(digits);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
  const rest = (whole % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
  if (!hours) return `${minutes}m ${rest}s`;
  return `${hours}h ${String(minutes).padStart(2, "0")}m${+rest ? ` ${rest}s` : ""}`;
}

/** A value of a pass's row with its unit; times to the microsecond. */
function withUnit(value, unit) {
  if (unit === "ns") return value < 1e9 ? clock(value / 1e9) : `${(value / 1e9).toFixed(6)} s`;
  return count(value);
}
