"use strict";
// What the page says when it is pointed at. Without this it says the same, all but the values at a time.

function shown(value, unit, decimals) {
  return value === null || value === undefined ? "no sample" : value.toFixed(decimals) + " " + unit;
}

function moment(seconds, span) {
  if (span < 120) return seconds.toFixed(1) + " s";
  const whole = Math.round(seconds), two = (n) => String(n).padStart(2, "0");
  const minutes = Math.floor(whole / 60);
  if (span < 3600 && whole < 3600) return minutes + ":" + two(whole % 60);
  return Math.floor(minutes / 60) + ":" + two(minutes % 60) + ":" + two(whole % 60);
}

// Whoever points, by mouse, finger or arrow keys: `at` gets shares of the width and the height, or null when nobody does.
function pointed(element, at) {
  let last = 0.5;
  const output = element.closest("figure").querySelector("output");
  element.tabIndex = 0;
  element.addEventListener("focus", () => { output.ariaLive = "polite"; });  // only the one that has the keys speaks
  const from = (event) => {
    const box = element.getBoundingClientRect();
    const inside = (value) => Math.min(Math.max(value, 0), 0.999999);
    last = inside((event.clientX - box.left) / box.width);
    at(last, inside((event.clientY - box.top) / box.height));
  };
  element.addEventListener("pointermove", from);
  element.addEventListener("pointerdown", from);
  element.addEventListener("pointerleave", () => at(null, null));
  element.addEventListener("blur", () => {
    output.ariaLive = "off";
    at(null, null);
  });
  element.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") at(null, null);
    if (!step) return;
    event.preventDefault();
    last = Math.min(Math.max(last + step * (event.shiftKey ? 0.05 : 0.005), 0), 0.999999);
    at(last, 0);
  });
}

function line(svg) {
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("class", "cursor");
  svg.append(path);
  return (at) => path.setAttribute("d", at === null ? "" : "M" + 1000 * at + " 0V100");
}

// The bytes of a palette PNG: its size, its colours and one index per cell. Nothing where the browser can't unpack it.
async function unpacked(source) {
  if (typeof DecompressionStream === "undefined") return null;
  const bytes = Uint8Array.from(atob(source.split(",")[1]), (char) => char.charCodeAt(0));
  const view = new DataView(bytes.buffer), found = {}, packed = [];
  for (let i = 8; i < bytes.length; i += 12 + view.getUint32(i)) {
    const kind = String.fromCharCode(...bytes.subarray(i + 4, i + 8));
    found[kind] = bytes.subarray(i + 8, i + 8 + view.getUint32(i));
    if (kind === "IDAT") packed.push(found[kind]);  // large pictures have several
  }
  const stream = new Blob(packed).stream().pipeThrough(new DecompressionStream("deflate"));
  const cells = new Uint8Array(await new Response(stream).arrayBuffer());
  const head = new DataView(found.IHDR.buffer, found.IHDR.byteOffset);
  return { columns: head.getUint32(0), rows: head.getUint32(4), cells, colors: found.PLTE };
}

// As many pixels as the screen has; each shows the least of the cells in it, so that no idle GPU is lost.
function draw(canvas, picture, blank) {
  const dense = Math.min(window.devicePixelRatio || 1, 2), box = canvas.parentElement.getBoundingClientRect();
  const wide = Math.min(Math.max(Math.round(box.width * dense), 1), picture.columns);
  const tall = Math.min(Math.max(Math.round(box.height * dense), 1), picture.rows);
  canvas.width = wide;
  canvas.height = tall;
  const context = canvas.getContext("2d"), image = context.createImageData(wide, tall);
  const least = new Uint8Array(wide * tall).fill(blank);
  for (let row = 0; row < picture.rows; row++) {
    const y = Math.floor(row * tall / picture.rows) * wide, from = row * (picture.columns + 1) + 1;
    for (let column = 0; column < picture.columns; column++) {
      const at = y + Math.floor(column * wide / picture.columns);
      if (picture.cells[from + column] < least[at]) least[at] = picture.cells[from + column];
    }
  }
  for (let i = 0; i < least.length; i++) {
    if (least[i] === blank) continue;
    image.data.set(picture.colors.subarray(3 * least[i], 3 * least[i] + 3), 4 * i);
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

async function setUpMap(figure, data, cursors, show) {
  const cells = figure.querySelector(".cells"), output = figure.querySelector("output"), still = output.textContent;
  const picture = await unpacked(cells.querySelector("img").src);
  const canvas = document.createElement("canvas"), bar = document.createElement("div");
  if (picture) {
    cells.prepend(canvas);
    const redraw = () => draw(canvas, picture, data.blank);
    redraw();
    new ResizeObserver(redraw).observe(cells);
  }
  bar.className = "cursor";
  bar.hidden = true;
  cells.append(bar);
  cursors.push((at) => {
    bar.hidden = at === null;
    if (at !== null) bar.style.left = 100 * at + "%";
  });
  pointed(cells, (x, y) => {
    show(x);
    if (x === null || !picture) {
      output.textContent = still;
      return;
    }
    const row = Math.floor(y * picture.rows), column = Math.floor(x * picture.columns);
    const index = picture.cells[row * (picture.columns + 1) + 1 + column];
    const value = index === data.blank ? null : index / (data.steps - 1) * data.full;
    output.textContent = data.rows[row] + ": " + (data.lowest ? "lowest " : "") + shown(value, data.unit, data.decimals);
  });
}

function setUpRanks(figure, data) {
  const area = figure.querySelector(".area"), output = figure.querySelector("output"), still = output.textContent;
  const cursor = line(area), n = data.names.length;
  pointed(area, (x) => {
    const i = x === null ? 0 : Math.floor(x * n);
    cursor(x === null ? null : (i + 0.5) / n);
    output.textContent = x === null ? still
      : data.names[i] + ": " + shown(data.values[i], data.unit, data.decimals) + ", " + (i + 1) + " of " + n;
  });
}

function setUp(run) {
  const data = JSON.parse(run.querySelector(".data").textContent), cursors = [], span = data.end - data.begin;
  const reach = Math.max(data.end, span);
  const show = (at) => cursors.forEach((cursor) => cursor(at));
  for (const figure of run.querySelectorAll("figure[data-metric]")) {
    const own = data.charts[figure.dataset.metric], output = figure.querySelector("output"), still = output.textContent;
    const area = figure.querySelector(".area"), cursor = line(area);
    cursors.push((at) => {
      cursor(at);
      if (at === null) {
        output.textContent = still;
        return;
      }
      const time = data.begin + at * span, i = Math.floor((time - own.start) / own.width);
      const mean = own.mean[i], ends = own.several && mean !== null && mean !== undefined;
      output.textContent = moment(time, reach) + ": " + shown(mean, own.unit, own.decimals)
        + (ends ? " (" + own.low[i].toFixed(own.decimals) + " to " + own.high[i].toFixed(own.decimals) + ")" : "");
    });
    pointed(area, show);
  }
  const map = run.querySelector(".map"), ranks = run.querySelector(".ranks");
  if (map) setUpMap(map, data.map, cursors, show);
  if (ranks) setUpRanks(ranks, data.ranks);
  run.classList.add("live");
}

document.querySelectorAll(".run").forEach(setUp);
window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
