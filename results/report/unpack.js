/** Packed columns (pack.py) as numbers again; each column when it is first asked for. */

async function unpack(packed) {
  const planes = await inflate(packed.data);
  const places = new Map();
  let offset = 0;
  for (const [name, width] of packed.columns) {
    places.set(name, [offset, width]);
    offset += width * packed.rows;
  }
  const known = new Map();
  return {
    rows: packed.rows,
    names: [...places.keys()],
    column(name) {
      if (!known.has(name)) known.set(name, unfold(planes, packed.rows, ...places.get(name)));
      return known.get(name);
    },
    add: (name, values) => known.set(name, values),
  };
}

async function inflate(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Planes of bytes -> zigzag -> differences -> values. Exact below 2^53. */
function unfold(planes, rows, offset, width) {
  const values = new Float64Array(rows);
  let value = 0;
  for (let row = 0; row < rows; row += 1) {
    let zigzag = 0;
    for (let byte = width - 1; byte >= 0; byte -= 1) {
      zigzag = zigzag * 256 + planes[offset + byte * rows + row];
    }
    value += zigzag % 2 ? -(zigzag + 1) / 2 : zigzag / 2;
    values[row] = value;
  }
  return values;
}
