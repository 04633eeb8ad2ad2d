/** The window of time that all charts show, in seconds of the run's clock. */

function windowOver(from, to) {
  const listeners = [];
  const shortest = 1e-6;
  const view = {
    from,
    to,
    listen: (listener) => listeners.push(listener),
    set(first, last) {
      const length = Math.min(Math.max(last - first, shortest), to - from);
      view.from = Math.min(Math.max(first, from), to - length);
      view.to = view.from + length;
      listeners.forEach((listener) => listener());
    },
    whole: () => view.set(from, to),
    zoom(factor, around = (view.from + view.to) / 2) {
      view.set(around - (around - view.from) * factor, around + (view.to - around) * factor);
    },
    move(share) {
      const step = (view.to - view.from) * share;
      view.set(view.from + step, view.to + step);
    },
  };
  return view;
}

function startToolbar(view) {
  const actions = {
    whole: view.whole,
    in: () => view.zoom(0.5),
    out: () => view.zoom(2),
    left: () => view.move(-0.5),
    right: () => view.move(0.5),
  };
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", actions[button.dataset.zoom]);
  }
  const show = () => {
    const step = (view.to - view.from) / 1000;
    const text = `${clock(view.from, step)} to ${clock(view.to, step)}`;
    document.getElementById("window").textContent = text;
  };
  view.listen(show);
  show();
}
