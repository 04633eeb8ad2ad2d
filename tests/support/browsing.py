"""Looks at charts in a browser: whether anything is drawn, and in which colour."""

from typing import Any

PIXELS = """
  const copy = new OffscreenCanvas(canvas.width, canvas.height);
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
"""
INK = f"""(canvas) => {{ {PIXELS}
  let painted = 0;
  for (let at = 3; at < data.length; at += 4) if (data[at]) painted += 1;
  return painted;
}}"""
COLOURS = f"""(canvas) => {{ {PIXELS}
  const seen = new Set();
  for (let at = 0; at < data.length; at += 4) {{
    if (data[at + 3] === 255) seen.add([data[at], data[at + 1], data[at + 2]].join(" "));
  }}
  return [...seen];
}}"""


def ink(page: Any, selector: str) -> list[int]:  # noqa: ANN401 - Playwright's
    """For each canvas, how many of its pixels are painted."""
    return [canvas.evaluate(INK) for canvas in page.query_selector_all(f"{selector} canvas")]


def colours(page: Any, selector: str) -> set[str]:  # noqa: ANN401 - Playwright's
    """The opaque colours of a canvas, as `red green blue`."""
    return set(page.query_selector(f"{selector} canvas").evaluate(COLOURS))


def drag(page: Any, selector: str, begin: float, end: float) -> None:  # noqa: ANN401 - Playwright's
    """Drag over a chart, from one share of its width to another."""
    page.locator(selector).scroll_into_view_if_needed()
    box = page.locator(f"{selector} .u-over").bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * begin, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * end, y, steps=4)
    page.mouse.up()
