/** Small pieces of the page, always made of text, never of markup. */

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "style") made.style.cssText = value;
    else if (value != null) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** One tab stop for a group of buttons; the arrow keys go from one to the next. */
function arrowKeys(group) {
  group.addEventListener("keydown", (event) => {
    const buttons = [...group.querySelectorAll("button")];
    const at = buttons.indexOf(document.activeElement);
    const steps = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 };
    const next = buttons[steps[event.key]];
    if (at < 0 || !next) return;
    event.preventDefault();
    onlyStop(buttons, next);
    next.focus();
  });
}

function onlyStop(buttons, chosen) {
  for (const button of buttons) button.tabIndex = button === chosen ? 0 : -1;
}

/** A path as a shell takes it. */
function quoted(path) {
  return /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}

/** Instead of charts: what went wrong. */
function showFault(error) {
  const fault = document.getElementById("fault");
  fault.textContent = `The charts could not be drawn: ${error.message}. The tables are complete.`;
  fault.hidden = false;
  console.error(error);
}
