"use strict";
const $ = (id) => document.getElementById(id);
const SHOWN = 5;
let dimensions = 0, names = null, hasLabels = false, side = 0, query = null, isHere = true;

async function ask(path, body) {
  const headers = { "Content-Type": "application/json" };
  if ($("key").value) headers.Authorization = `Bearer ${$("key").value}`;
  const answer = await fetch(path, body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) });
  if (answer.status === 401) $("key-label").hidden = false;
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({ error: `The service answered ${answer.status}.` }));
    throw new Error([told.error, told.hint].filter(Boolean).join(" "));
  }
  return answer;
}

function guarded(work) {
  return async (event) => {
    if (event && event.type === "submit") event.preventDefault();
    $("error").hidden = true;
    try { await work(event); } catch (error) { $("error").textContent = error.message; $("error").hidden = false; }
  };
}

const here = () => `collections/${encodeURIComponent($("collection").value)}`;

async function collections() {
  const found = (await (await ask("collections")).json()).collections;
  $("collection").replaceChildren(...found.map((each) => new Option(each.name, each.name)));
  await inspect();
}

async function inspect() {
  const facts = await (await ask(here())).json();
  dimensions = facts.dimensions;
  names = facts.columns;
  isHere = facts.kind !== "cluster"; // a cluster recalls, and does nothing else
  for (const id of ["correct", "fit", "look"]) $(id).hidden = !isHere;
  hasLabels = facts.has_labels;
  // Columns without names may be pixels.
  side = !names && Number.isInteger(Math.sqrt(dimensions)) && dimensions >= 16 ? Math.sqrt(dimensions) : 0;
  $("pixels-label").hidden = !side;
  $("right").type = hasLabels ? "text" : "number";
  $("right-kind").textContent = hasLabels ? "" : "row";
  $("fit").disabled = !facts.pairs;
  $("version").textContent = `version ${facts.version}, ${facts.patterns} patterns, ${facts.dimensions} dimensions`;
  $("report").textContent = facts.report || "Nothing was learned yet: answers are by distance.";
  await state();
}

async function state() {
  const sums = {};
  try {
    for (const line of (await (await ask("metrics")).text()).split("\n")) {
      const [, name, of, value] = line.match(/^ahop_(\w+)\{collection="(.*)"\} (\S+)$/) || [];
      if (name && of === $("collection").value) sums[name] = Number(value);
    }
  } catch { $("state").textContent = ""; return; }
  const asked = sums.queries_total || 0;
  const mean = (sum) => percent((sum || 0) / asked);
  $("state").textContent = asked
    ? `${asked} ${asked === 1 ? "query" : "queries"} so far: about ${mean(sums.queries_confidence_total)} are answered right, by its own estimate, and `
      + `${mean(sums.queries_unknown_total)} come from no stored pattern. ${sums.pairs || 0} were corrected or confirmed.`
    : "No query was answered yet.";
}

const GAPS = ["", "nan", "null", "na", "none", "?"];
const few = (words) => words.slice(0, 8).join(", ") + (words.length > 8 ? ` and ${words.length - 8} more` : "");

function number(cell) {
  const word = String(cell ?? "").trim().toLowerCase();
  if (GAPS.includes(word)) return null;
  const value = Number(word);
  if (!Number.isFinite(value)) throw new Error(`"${word}" is no number. Leave it empty if it was not observed.`);
  return value;
}

function numbers(text) {
  const trimmed = text.trim();
  const parts = trimmed.startsWith("[") ? JSON.parse(trimmed).flat() : trimmed.split(trimmed.includes(",") ? /\s*[,;]\s*/ : /\s+/);
  return parts.map(number);
}

function records(text) {
  const first = text.split("\n", 1)[0], mark = ["\t", ";"].find((each) => first.includes(each)) || ",", found = [[""]];
  let quoted = false;
  for (let place = 0; place < text.length; place++) {
    const sign = text[place], record = found[found.length - 1];
    if (sign === '"' && quoted && text[place + 1] === '"') { record[record.length - 1] += sign; place++; }
    else if (sign === '"') quoted = !quoted;
    else if (sign === mark && !quoted) record.push("");
    else if (sign === "\n" && !quoted) found.push([""]);
    else if (sign !== "\r" || quoted) record[record.length - 1] += sign;
  }
  return found.filter((each) => each.length > 1 || each[0].trim());
}

function named(heads, rows) {
  if (!names) throw new Error(`The columns of this collection have no names: paste the ${dimensions} numbers of one row.`);
  const given = new Set(heads), known = new Set(names), places = names.map((each) => heads.indexOf(each));
  const ignored = heads.filter((each) => !known.has(each)), missing = names.filter((each) => !given.has(each));
  if (missing.length === names.length) throw new Error(`The table has ${few(heads)}; the columns of this collection are ${few(names)}.`);
  const note = [
    rows.length > 1 ? `${rows.length} rows.` : "",
    ignored.length ? `Ignored columns: ${few(ignored)}.` : "",
    missing.length ? `Not in the table, so not observed: ${few(missing)}.` : "",
  ];
  const row = (which) => {
    if (!rows[which]) throw new Error(`The table has ${rows.length} rows.`);
    return places.map((place) => place < 0 ? null : number(rows[which][place]));
  };
  return { isTable: true, count: rows.length, note: note.filter(Boolean).join(" "), row };
}

function read(text) {
  const trimmed = text.trim();
  if (trimmed.startsWith("{")) {
    const row = JSON.parse(trimmed);
    return named(Object.keys(row), [Object.values(row)]);
  }
  if (!trimmed.startsWith("[")) {
    const [head, ...rows] = records(trimmed), heads = (head || []).map((each) => each.trim()), given = new Set(heads);
    const words = heads.filter((each) => !GAPS.includes(each.toLowerCase()) && !Number.isFinite(Number(each)));
    const isHead = (heads.length > 1 && words.length > 0) || (names && names.every((each) => given.has(each)));
    if (rows.length && isHead) return named(heads, rows);
  }
  return { isTable: false, count: 1, note: "", row: () => numbers(text) };
}

function draw(canvas, values) {
  const known = values.filter((each) => each !== null);
  const low = Math.min(...known), range = Math.max(...known) - low || 1;
  canvas.width = canvas.height = side;
  const context = canvas.getContext("2d"), image = context.createImageData(side, side);
  values.forEach((value, place) => {
    const shade = value === null ? 0 : 255 * (value - low) / range;
    image.data.set(value === null ? [120, 60, 140, 255] : [shade, shade, shade, 255], 4 * place);
  });
  context.putImageData(image, 0, 0);
  canvas.hidden = false;
}

async function picture(file) {
  if (!side) throw new Error(`A picture needs a square number of dimensions; this collection has ${dimensions}. Paste the row instead.`);
  const bitmap = await createImageBitmap(file), canvas = document.createElement("canvas");
  canvas.width = canvas.height = side;
  const context = canvas.getContext("2d");
  context.drawImage(bitmap, 0, 0, side, side);
  const [low, high] = $("pixels").value.split(",").map(Number), data = context.getImageData(0, 0, side, side).data;
  return Array.from({ length: dimensions }, (_, place) => {
    const [red, green, blue] = data.subarray(4 * place, 4 * place + 3);
    return +(low + (high - low) * (0.299 * red + 0.587 * green + 0.114 * blue) / 255).toFixed(5);
  });
}

async function given() {
  const file = $("file").files[0];
  if (file) await take(file);
}

async function take(file) {
  const text = file.type.startsWith("image/") ? "" : (await file.text()).trim();
  if (text && read(text).isTable) {
    $("row").value = text;
  } else {
    const row = text ? numbers(text.split("\n").pop()) : await picture(file);
    $("row").value = row.map((each) => each === null ? "" : each).join(", ");
  }
  $("which").value = 1;
  show();
}

async function dropped(event) {
  if (!event.dataTransfer.files.length) return;
  event.preventDefault();
  await take(event.dataTransfer.files[0]);
}

function chosen() {
  const found = read($("row").value);
  $("note").textContent = found.note;
  $("which-label").hidden = found.count < 2;
  $("which").max = found.count;
  return found.row(found.count < 2 ? 0 : Number($("which").value) - 1);
}

function show() {
  $("shown").hidden = true;
  $("note").textContent = "";
  if (!$("row").value.trim()) return;
  const row = chosen();
  if (side && row.length === dimensions) draw($("shown"), row);
}

async function recall() {
  query = chosen();
  if (query.length !== dimensions) throw new Error(`The row has ${query.length} numbers; this collection has ${dimensions} dimensions.`);
  const found = await (await ask(`${here()}/recall`, { queries: [query], k: SHOWN, explain: isHere, patterns: side > 0 })).json();
  $("answers").replaceChildren(...found.ids[0].map((id, place) => answer(found, id, place)));
  const unchecked = found.checked ? "" : "Unchecked: no label has shown whether these probabilities are right. ";
  $("unknown").textContent = unchecked + (found.unknown ? `None of these: ${percent(found.unknown[0])}. If it is one of them:` : "");
  $("answers-section").hidden = false;
  $("why-section").hidden = !isHere; // shown before it is drawn, which needs its width
  $("told").textContent = "";
  if (isHere) {
    $("words").textContent = found.explanations[0].words;
    $("waterfall").replaceChildren(waterfall(found.explanations[0]));
  }
  await state();
}

const percent = (share) => share > 0 && share < 0.01 ? "under 1 %" : share < 1 && share > 0.99 ? "over 99 %" : `${(100 * share).toFixed(0)} %`;

function answer(found, id, place) {
  const item = document.createElement("li"), canvas = document.createElement("canvas"), name = document.createElement("span");
  if (found.patterns) draw(canvas, found.patterns[0][place]);
  name.className = "name";
  name.textContent = found.labels ? `${found.labels[0][place]} (row ${id})` : `row ${id}`;
  const bar = document.createElement("div"), filled = document.createElement("i"), number = document.createElement("b");
  bar.className = "bar";
  filled.style.width = `${100 * found.posterior[0][place]}%`;
  number.textContent = percent(found.posterior[0][place]);
  bar.append(filled, number);
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "this one";
  button.onclick = guarded(() => tell(id, found.labels?.[0][place]));
  button.hidden = !isHere;
  item.className = found.patterns ? "pictured" : "";
  item.append(...(found.patterns ? [canvas] : []), name, bar, button);
  return item;
}

async function correct() {
  const given = $("right").value.trim();
  if (!query) throw new Error("Ask where a row comes from first.");
  if (!hasLabels) return tell(Number(given));
  const [ids] = (await (await ask(`${here()}/recall`, { queries: [query], where: { label: [given] } })).json()).ids;
  if (!ids.length) throw new Error(`Nothing that is stored is called "${given}".`);
  return tell(ids[0], given);
}

async function tell(id, name) {
  const kept = await (await ask(`${here()}/pairs`, { queries: [query], ids: [id] })).json();
  $("told").textContent = `Thank you: ${name ?? `row ${id}`}. Kept for the next fit: ${kept.pairs} ${kept.pairs === 1 ? "pair" : "pairs"}.`;
  $("fit").disabled = false;
  await state();
}

function fitting(whole, short, room) {
  const most = Math.floor(room / 7.2); // letters
  return whole.length <= most ? whole : short.slice(0, most);
}

function signed(value) {
  const shown = value.toFixed(1);
  return Number(shown) === 0 ? "0.0" : value > 0 ? `+${shown}` : shown;
}

function waterfall(explanation) {
  const all = { name: "all together", log_odds: explanation.log_odds, word: "", whole: true };
  const bars = [...explanation.bars.filter((each) => each.log_odds !== null), all];
  let sum = 0, low = 0, high = 0;
  const spans = bars.map((bar) => {
    const from = bar.whole ? 0 : sum;
    sum = bar.whole ? bar.log_odds : sum + bar.log_odds;
    low = Math.min(low, sum); high = Math.max(high, sum);
    return [from, sum];
  });
  // As wide as the place that it has, so that its words keep their size.
  const width = Math.max(300, Math.min(700, $("waterfall").clientWidth)), left = Math.round(Math.max(150, 0.36 * width)), step = 26, place = (value) => left + (width - left - 60) * (value - low) / (high - low || 1);
  const make = (kind, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const drawn = make("svg", { viewBox: `0 0 ${width} ${step * bars.length + 30}`, role: "img", "aria-label": explanation.words });
  drawn.append(make("line", { x1: place(0), x2: place(0), y1: 0, y2: step * bars.length, class: "zero" }));
  bars.forEach((bar, number) => {
    const [from, to] = spans[number].map(place), y = step * number;
    const seen = bar.seen == null ? "" : `: ${typeof bar.seen === "string" ? bar.seen : +bar.seen.toPrecision(3)}`;
    const word = bar.word ? ` (${bar.word})` : "";
    drawn.append(
      make("text", { x: left - 8, y: y + 17, "text-anchor": "end" }, fitting(`${bar.name}${seen}${word}`, `${bar.name}${seen}`, left)),
      make("rect", { x: Math.min(from, to), y: y + 4, width: Math.max(1, Math.abs(to - from)), height: step - 8, class: bar.whole ? "all" : bar.log_odds < 0 ? "against" : "for" }),
      make("text", { x: Math.max(from, to) + 4, y: y + 17 }, signed(bar.log_odds)),
    );
  });
  drawn.append(make("text", { x: 0, y: step * bars.length + 22 }, `for ${explanation.rival} ← nats → for ${explanation.answer}`.slice(0, Math.floor(width / 7))));
  return drawn;
}

async function look() {
  $("drift").textContent = "Looking…";
  try {
    const seen = await (await ask(`${here()}/watch`)).json();
    $("drift").textContent = seen.words;
    $("drift").classList.toggle("alarm", seen.alarm);
  } catch (error) {
    $("drift").textContent = error.message;
  }
}

async function fit() {
  $("fitting").textContent = "Learning…";
  $("fit").disabled = true;
  try { await learn(); } catch (error) { $("fitting").textContent = ""; throw error; } finally { await inspect(); }
  $("fitting").textContent = `Done: answers are from ${$("version").textContent.split(",")[0]} now.`;
}

async function learn() {
  const started = await (await ask(`${here()}/fit`, {})).json();
  for (;;) {
    await new Promise((done) => setTimeout(done, 500));
    const told = await (await ask(`${here()}/versions`)).json();
    const job = told.fits.find((each) => each.job === started.job);
    if (!job || job.state === "done") break;
    if (job.state === "failed") throw new Error(job.error);
  }
}

$("ask").onsubmit = guarded(recall);
$("correct").onsubmit = guarded(correct);
$("key-form").onsubmit = guarded(collections);
$("file").onchange = guarded(given);
$("pixels").onchange = guarded(given);
$("row").oninput = guarded(show);
$("row").ondrop = guarded(dropped);
$("which").oninput = guarded(show);
$("collection").onchange = guarded(inspect);
$("key").onchange = guarded(collections);
$("fit").onclick = guarded(fit);
$("look").onclick = guarded(look);
guarded(collections)();
