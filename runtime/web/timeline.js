// The engine timeline: wheel or +/- zooms at the pointer, dragging or the arrow keys pan, 0 shows everything.
(() => {
  const data = JSON.parse(document.getElementById("timeline-data").textContent);
  const canvas = document.getElementById("timeline"), hint = document.getElementById("hint");
  const context = canvas.getContext("2d"), LEFT = 58, ROW = 34, TOP = 8;
  let from = 0, to = data.cycles, drag = null;
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
  const colour = (layer) => `hsl(${(layer * 137.5) % 360} 55% ${layer % 2 ? 46 : 58}%)`;
  const width = () => canvas.clientWidth - LEFT;
  const cycleAt = (x) => from + ((x - LEFT) / width()) * (to - from);

  function draw() {
    const scale = window.devicePixelRatio || 1;
    canvas.width = canvas.clientWidth * scale;
    canvas.height = canvas.clientHeight * scale;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    context.font = "11px system-ui, sans-serif";
    const perPixel = width() / (to - from);
    data.tracks.forEach((track, row) => {
      const y = TOP + row * ROW;
      context.fillStyle = style("--band");
      context.fillRect(LEFT, y, width(), ROW - 8);
      let painted = -1; // last pixel column drawn: thousands of short spans cost one rectangle per column
      for (const [begin, end, layer] of track.spans) {
        if (end < from || begin > to) continue;
        const x = LEFT + Math.max(0, (begin - from) * perPixel), right = LEFT + Math.min(width(), (end - from) * perPixel);
        if (right <= painted) continue;
        const size = Math.max(right - x, 0.6);
        context.fillStyle = colour(layer);
        context.fillRect(x, y, size, ROW - 8);
        painted = x + size;
        if (size > 46) {
          context.fillStyle = "#fff";
          context.save();
          context.beginPath();
          context.rect(x, y, size - 3, ROW);
          context.clip();
          context.fillText(data.layers[layer], x + 4, y + 17);
          context.restore();
        }
      }
      context.fillStyle = style("--ink");
      context.clearRect(0, y, LEFT - 2, ROW);
      context.fillText(track.name, 8, y + 17);
    });
    const step = 10 ** Math.floor(Math.log10(Math.max(1, (to - from) / 4)));
    const tick = step * ((to - from) / step > 20 ? 5 : (to - from) / step > 8 ? 2 : 1);
    context.fillStyle = style("--soft");
    for (let cycle = Math.ceil(from / tick) * tick; cycle <= to; cycle += tick) {
      const x = LEFT + (cycle - from) * perPixel;
      context.fillRect(x, TOP, 0.5, data.tracks.length * ROW);
      context.fillText(cycle.toLocaleString("en"), Math.min(x + 2, LEFT + width() - 50), TOP + data.tracks.length * ROW + 12);
    }
  }

  function show(begin, end) {
    const size = Math.min(data.cycles, Math.max(20, end - begin));
    from = Math.max(0, Math.min(data.cycles - size, begin));
    to = from + size;
    draw();
  }
  const zoom = (factor, centre) => show(centre - (centre - from) * factor, centre + (to - centre) * factor);

  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, cycleAt(event.offsetX));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => { drag = { x: event.offsetX, from, to }; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointerup", () => { drag = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (drag) {
      const moved = ((drag.x - event.offsetX) / width()) * (drag.to - drag.from);
      show(drag.from + moved, drag.to + moved);
      return;
    }
    const cycle = cycleAt(event.offsetX), track = data.tracks[Math.floor((event.offsetY - TOP) / ROW)];
    const span = track && track.spans.find(([begin, end]) => begin <= cycle && cycle < end);
    hint.textContent = span
      ? `${track.name}: ${data.layers[span[2]]}, cycles ${span[0].toLocaleString("en")} to ${span[1].toLocaleString("en")}` +
        (span[3] >= 0 ? `, instruction ${span[3]} ${span[4]}` : "")
      : `cycle ${Math.max(0, Math.floor(cycle)).toLocaleString("en")}`;
  });
  canvas.addEventListener("keydown", (event) => {
    const middle = (from + to) / 2, part = (to - from) / 5;
    const action = { "+": () => zoom(0.7, middle), "-": () => zoom(1.4, middle), "0": () => show(0, data.cycles),
      ArrowLeft: () => show(from - part, to - part), ArrowRight: () => show(from + part, to + part) }[event.key];
    if (action) { event.preventDefault(); action(); }
  });
  const layers = document.getElementById("layers"), keys = new Set(data.tracks.flatMap((track) => track.spans.map((span) => span[2])));
  for (const layer of [...keys].sort((a, b) => a - b)) {
    const entry = document.createElement("div"), key = document.createElement("span");
    key.className = "key";
    key.style.background = colour(layer);
    entry.append(key, data.layers[layer]);
    layers.append(entry);
  }
  layers.parentElement.open = keys.size <= 24;
  document.getElementById("zoom-in").onclick = () => zoom(0.6, (from + to) / 2);
  document.getElementById("zoom-out").onclick = () => zoom(1.6, (from + to) / 2);
  document.getElementById("zoom-all").onclick = () => show(0, data.cycles);

  // The memories: a part of addresses a row of PART pixels, steps of time across.
  const picture = document.getElementById("memories"), PART = 4, GAP = 10;
  const places = [];
  let height = TOP;
  for (const memory of data.memories) {
    places.push({ memory, top: height });
    height += memory.parts.length * PART + GAP;
  }
  picture.style.height = `${height}px`;

  function drawMemories() {
    const scale = window.devicePixelRatio || 1, pen = picture.getContext("2d");
    picture.width = picture.clientWidth * scale;
    picture.height = height * scale;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.font = "11px system-ui, sans-serif";
    const step = (picture.clientWidth - LEFT) / data.columns;
    for (const { memory, top } of places) {
      pen.fillStyle = style("--ink");
      pen.fillText(memory.name, 8, top + 12);
      pen.fillText(`${(memory.bytes / 1024).toLocaleString("en")} KiB`, 8, top + 26);
      pen.strokeStyle = style("--line");
      pen.strokeRect(LEFT, top, data.columns * step, memory.parts.length * PART);
      memory.parts.forEach((spans, row) => {
        for (const [begin, end, layer] of spans) {
          pen.fillStyle = colour(layer);
          pen.fillRect(LEFT + begin * step, top + row * PART, Math.max(0.6, (end - begin) * step), PART);
        }
      });
    }
  }

  picture.addEventListener("pointermove", (event) => {
    const column = ((event.offsetX - LEFT) / (picture.clientWidth - LEFT)) * data.columns;
    const place = places.findLast(({ top }) => top <= event.offsetY);
    const row = place ? Math.floor((event.offsetY - place.top) / PART) : -1;
    const span = place && (place.memory.parts[row] || []).findLast(([begin, end]) => begin <= column && column < end);
    document.getElementById("memory-hint").textContent = span
      ? `${place.memory.name}, cycle ${Math.floor((column / data.columns) * data.cycles).toLocaleString("en")}: ${data.layers[span[2]]}` : "";
  });
  const drawAll = () => { draw(); drawMemories(); };
  window.addEventListener("resize", drawAll);
  drawAll();
})();
