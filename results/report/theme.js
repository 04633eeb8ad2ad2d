/** Light or dark: as the system, or as chosen with the button. Canvases are told to redraw. */

const THEMES = { auto: "◐ auto", light: "☀ light", dark: "☾ dark" };
const repaints = [];
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
  for (const query of ["(prefers-color-scheme: dark)", "print"]) {
    matchMedia(query).addEventListener("change", repaint);
  }
}

/** Say something to those who listen instead of looking. */
function say(text) {
  document.getElementById("status").textContent = text;
}
