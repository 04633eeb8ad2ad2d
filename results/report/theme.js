/** Light or dark: as the system, or as chosen with the button. Canvases are told to redraw. */

const THEMES = { auto: "◐ auto", light: "☀ light", dark: "☾ dark" };
const PRINTED = { width: 930, gap: 16 }; // pixels, as report.css has it: fits A4 and Letter, landscape
const repaints = [];
const resizes = [];
let isPrinting = false;
const colours = new Map(); // asking the browser for one costs it a layout

/** A colour of the style sheet as the canvas wants it. */
function colour(name) {
  if (!colours.has(name)) {
    const probe = document.getElementById("status");
    probe.style.color = `var(--${name})`;
    colours.set(name, getComputedStyle(probe).color);
  }
  return colours.get(name);
}

function repaint() {
  colours.clear();
  repaints.forEach((each) => each());
}

function faded(name, share) {
  return colour(name).replace("rgb(", "rgba(").replace(")", `, ${share})`);
}

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  button.textContent = THEMES[theme];
  button.setAttribute("aria-label", `Colours: ${theme === "auto" ? "as the system" : theme}`);
  repaint();
}

function startTheme() {
  const names = Object.keys(THEMES);
  let chosen = 0;
  document.getElementById("theme").addEventListener("click", () => {
    chosen = (chosen + 1) % names.length;
    setTheme(names[chosen]);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  matchMedia("print").addEventListener("change", (event) => printing(event.matches));
  addEventListener("beforeprint", () => printing(true));
  addEventListener("afterprint", () => printing(false));
}

/** Paper has its own width, which nothing on the screen can be asked for. */
function printing(starts) {
  isPrinting = starts;
  resizes.forEach((resize) => resize());
  repaint();
}

/** The width of one of so many charts that stand side by side. */
function widthOf(box, columns) {
  if (!isPrinting) return Math.max(200, box.clientWidth);
  return Math.floor((PRINTED.width - PRINTED.gap * (columns - 1)) / columns);
}

/** Keep a chart as wide as its box. */
function keepWidth(chart, box, height, columns) {
  const resize = () => chart.setSize({ width: widthOf(box, columns), height });
  resizes.push(resize);
  repaints.push(() => chart.redraw(false));
  new ResizeObserver(resize).observe(box);
}

/** Say something to those who listen instead of looking. */
function say(text) {
  document.getElementById("status").textContent = text;
}
