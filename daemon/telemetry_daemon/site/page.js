// The live page: what the daemon's stream tells of the devices, and the half hour before it.
// Without this script the page is a whole table already. Every text is put in as text, never as markup.
"use strict";

// ---- Numbers in words: the same texts as telemetry_exporters/human.py makes ----

const ABSENT = "–";

/** So many decimals; of two equally near numbers the even one is taken, as Python does. */
function fixed(value, decimals) {
  const scaled = Math.abs(value) * 10 ** decimals;
  const isTie = scaled % 1 === 0.5 && Number.isInteger(value * 2 ** (decimals + 1));
  if (!isTie) return value.toFixed(decimals);
  const even = 2 * Math.round(scaled / 2);
  return ((Math.sign(value) * even) / 10 ** decimals).toFixed(decimals);
}

function digits(value) {
  if (Number.isInteger(value)) return fixed(value, 0);
  const size = Math.abs(value);
  if (size >= 99.95) return fixed(value, 0);
  if (size >= 9.995) return fixed(value, 1);
  return size >= 0.005 ? fixed(value, 2) : String(Number(value.toPrecision(2)));
}

function scaled(value, step, units) {
  let place = 0;
  while (Math.abs(value) >= step * 0.9995 && place < units.length - 1) {
    value /= step;
    place += 1;
  }
  return `${digits(value)} ${units[place]}`;
}

function percent(ratio) {
  const value = ratio * 100;
  if (value > 0 && value < 0.1) return "<0.1 %";
  const isWhole = (value >= 9.95 && value <= 99) || value >= 100;
  return `${fixed(value, isWhole ? 0 : 1).replace(/\.0$/, "")} %`;
}

const utc = (time) => `${new Date(time * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;

const bytes = (value) => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);

const BY_UNIT = {
  celsius: (value) => `${fixed(Number(fixed(value, 1)) + 0, 1).replace(/\.0$/, "")} °C`,
  watts: (value) => `${value >= 9.95 ? fixed(value, 0) : digits(value)} W`,
  bytes,
  ratio: percent,
  hertz: (value) => `${digits(value / 1e6)} MHz`,
  throttled: (value) => (value ? "yes" : "no"),
};

const unitOf = (metric) => metric.split("_").at(-1);
const nameOf = (metric) => metric.replace(/_[a-z]+$/, "").replaceAll("_", " ");
const inWords = (value, metric) => BY_UNIT[unitOf(metric)](value);

// ---- The last half hour: a place for each slot, in a ring; NaN where there is no number ----

class Past {
  constructor(slotSeconds, slots) {
    Object.assign(this, { slotSeconds, slots, length: slots + 8 });
    this.clear();
  }

  clear() {
    Object.assign(this, { anchor: 0, newest: 0, rings: new Map(), events: [] });
  }

  /** The rings of a device's metric: the last and the highest number of each slot. */
  of(id, metric) {
    const key = `${metric} ${id}`;
    if (!this.rings.has(key)) {
      const empty = () => new Float32Array(this.length).fill(NaN);
      this.rings.set(key, { last: empty(), highest: empty(), gaps: [] });
    }
    return this.rings.get(key);
  }

  /** The number of the slot at a time; numbers begin long before the first reading. */
  numberAt(time) {
    this.anchor ||= time - 2 * this.slots * this.slotSeconds;
    return Math.floor((time - this.anchor) / this.slotSeconds + 0.001);
  }

  timeOf(number) {
    return this.anchor + number * this.slotSeconds;
  }

  /** The first of the slots that are shown; the newest has not ended yet. */
  get first() {
    return this.newest - this.slots;
  }

  at(ring, number) {
    return number < this.first ? NaN : (ring[number % this.length] ?? NaN);
  }

  advance(number) {
    for (let next = Math.max(this.newest + 1, number - this.length + 1); next <= number; next++)
      for (const { last, highest } of this.rings.values()) last[next % this.length] = highest[next % this.length] = NaN;
    this.newest = Math.max(this.newest, number);
  }

  /** Take the readings of a moment; whether a slot has ended with that. */
  add(time, devices, columns, rows) {
    if (this.numberAt(time) < this.newest - 1) this.clear(); // the clock was set back
    const before = this.newest;
    this.advance(this.numberAt(time));
    const place = this.newest % this.length;
    rows.forEach((row, i) =>
      columns.forEach((metric, column) => {
        const { last, highest } = this.of(devices[i].id, metric), value = row?.[column] ?? NaN;
        last[place] = value;
        if (!(highest[place] >= value)) highest[place] = value;
      }),
    );
    return this.newest > before;
  }

  /** Take a document of history, or a piece of one from the stream. */
  take({ start, slots, devices = [], events = [] }) {
    const first = start === undefined ? 0 : this.numberAt(Date.parse(start) / 1000 + this.slotSeconds / 2);
    if (slots) this.advance(first + slots);
    for (const { id, series } of devices)
      for (const metric of Object.keys(series)) this.fill(this.of(id, metric), series[metric], first);
    const keyOf = (event) => `${event.time} ${event.id} ${event.code}`, known = new Set(this.events.map(keyOf));
    this.events.push(...events.filter((event) => !known.has(keyOf(event))));
    this.events.sort((a, b) => Date.parse(a.time) - Date.parse(b.time)).splice(0, this.events.length - 256);
  }

  fill(ring, { last, highest = last, gaps = [] }, first) {
    last.forEach((value, i) => {
      if (first + i < this.first) return;
      ring.last[(first + i) % this.length] = value ?? NaN;
      ring.highest[(first + i) % this.length] = highest[i] ?? NaN;
    });
    const kept = ring.gaps.filter((gap) => gap.first < first && gap.first + gap.slots > this.first);
    ring.gaps = [...kept, ...gaps.map((gap) => ({ ...gap, first: gap.first + first }))];
  }

  /** Why there is no number in a slot, as far as it was told. */
  reason(id, metric, number) {
    const gap = this.of(id, metric).gaps.find((one) => number >= one.first && number < one.first + one.slots);
    return gap?.reason.replaceAll("_", " ") ?? "";
  }

  /** The highest number of all slots of some devices. */
  peak(ids, metric) {
    return ids.reduce((most, id) => this.of(id, metric).highest.reduce((a, b) => (b > a ? b : a), most), 0);
  }
}

// ---- What the daemon told, and what was chosen ----

const page = document.documentElement.dataset;
const past = new Past(Number(page.slotSeconds), Number(page.slots));
const model = { state: null, devices: [], places: new Map(), values: [], time: 0, host: [], until: Infinity };
const MOST_TILES = 16;
const CAP = "power_cap_watts";
const isSmall = () => model.devices.length <= MOST_TILES;

const valueOf = (place, metric) => model.values[place]?.[model.state.columns.indexOf(metric)] ?? null;

/** What a value is a part of, null where nobody says so. */
function wholeOf(place, metric) {
  const wholes = {
    temperature_celsius: () => model.devices[place].limit_celsius,
    power_watts: () => valueOf(place, CAP),
    memory_used_bytes: () => model.devices[place].memory_total_bytes,
  };
  return wholes[metric]?.() ?? null;
}

/** The number at the upper edge of a drawing: the whole, or the most there was. */
function ceilingOf(place, metric, ids = [model.devices[place].id]) {
  if (["ratio", "throttled"].includes(unitOf(metric))) return 1;
  return Math.max(wholeOf(place, metric) ?? 0, past.peak(ids, metric)) || 1;
}

const SEVERITIES = ["bad", "warning", "quiet", "good"];
const gravity = (place) => SEVERITIES.length - SEVERITIES.indexOf(model.devices[place].condition.severity);

/** What was chosen stands in the address behind the #. */
function chosen() {
  const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const metrics = model.state?.columns ?? [];
  return {
    card: model.places.has(given.card) ? given.card : "",
    filter: given.filter ?? "",
    metric: metrics.includes(given.metric) && given.metric !== CAP ? given.metric : metrics[0],
    sort: COLUMNS.some(([key]) => key === given.sort?.replace("-", "")) ? given.sort : "-condition",
  };
}

function addressOf(changes) {
  const parameters = new URLSearchParams(location.hash.slice(1));
  for (const [name, value] of Object.entries(changes)) value ? parameters.set(name, value) : parameters.delete(name);
  return `${parameters}` ? `#${parameters}` : location.href.split("#")[0];
}

function choose(changes) {
  history["card" in changes ? "pushState" : "replaceState"](null, "", addressOf(changes));
  show();
}

function isWanted(place, filter) {
  const { id, name, model: kind, condition, findings } = model.devices[place];
  const words = [name, id, kind, condition.severity, ...findings.map((one) => one.word)].join("\n").toLowerCase();
  return words.includes(filter.trim().toLowerCase());
}

// ---- Elements ----

function put(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) if (value !== null) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
const make = (tag, attributes = {}, ...children) => put(document.createElement(tag), attributes, children);
const draw = (tag, attributes = {}, ...children) =>
  put(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const find = (selector) => document.querySelector(selector);

/** Say it in this element, touching the page only where it says something else. */
function say(element, text, title = null) {
  if (element.textContent !== text) element.textContent = text;
  if (title !== null && element.title !== title) element.title = title;
}

/** A text with what stands between backticks as code. */
const withCode = (text) => text.split("`").map((part, i) => (i % 2 ? make("code", {}, part) : part));

const linkTo = (entry, text) =>
  make("a", { href: `#${new URLSearchParams({ card: entry.id })}`, title: `${entry.name}\n${entry.model ?? ""}` }, text);

/** A state's word with its mark. */
function mark(element, { word, severity }, classes = "state") {
  say(element, word, word);
  if (element.className !== `${classes} ${severity}`) element.className = `${classes} ${severity}`;
}

/** An element that shows a metric of the device at this place, with its whole; it is touched when the value changes. */
function reading(place, metric, tag = "span") {
  const number = document.createTextNode("");
  const whole = make("small");
  const element = make(tag, { "data-metric": metric }, number, whole);
  let before, wholeBefore;
  const update = () => {
    const value = valueOf(place, metric), all = wholeOf(place, metric);
    if (value === null) {
      const why = past.reason(model.devices[place].id, metric, past.newest - 1) || "no reading";
      if (element.title !== why) element.title = why;
    }
    if (value === before && all === wholeBefore) return;
    [before, wholeBefore] = [value, all];
    number.data = value === null ? ABSENT : inWords(value, metric);
    whole.textContent = all === null ? "" : ` of ${inWords(all, metric)}`;
    if (value !== null) element.removeAttribute("title");
  };
  return { element, update };
}

// ---- Drawings ----

const HEIGHT = 1000, ROOM = 60;
const limitPath = (whole, ceiling) => (whole ? `M0 ${Math.round(HEIGHT * (1 - whole / ceiling))}H${past.slots}` : "");

/** The paths of a line and of the area below it; a gap is a gap. */
function paths(ring, ceiling, step = 1) {
  let line = "", area = "", points = "", begin = 0;
  const end = (x) => {
    line += `M${points}`;
    area += `M${begin} ${HEIGHT}L${points}L${x} ${HEIGHT}Z`;
    points = "";
  };
  for (let x = 0; x < past.slots; x += step) {
    let value = NaN;
    for (let i = 0; i < step; i++) {
      const one = past.at(ring, past.first + x + i);
      if (!(value >= one) && one === one) value = one;
    }
    if (value === value) {
      const y = Math.round(HEIGHT * (1 - Math.max(value, 0) / ceiling));
      if (!points) begin = x;
      points += `${points && " "}${x} ${y} ${x + step / 2} ${y}`;
    } else if (points) end(x - step / 2);
  }
  if (points) end(past.slots - step / 2);
  return { line, area };
}

function drawing(...classes) {
  const lines = Object.fromEntries(classes.map((name) => [name, draw("path", { class: name })]));
  const box = { class: "spark", viewBox: `0 ${-ROOM} ${past.slots} ${HEIGHT + ROOM}`, preserveAspectRatio: "none", "aria-hidden": "true" };
  return { element: draw("svg", box, ...Object.values(lines)), lines };
}

/** The half hour of a metric of the device at this place. */
function spark(place, metric, step = 1) {
  const { element, lines } = drawing("area", "line", "limit");
  const slot = (ceiling = ceilingOf(place, metric)) => {
    const { line, area } = paths(past.of(model.devices[place].id, metric).last, ceiling, step);
    lines.line.setAttribute("d", line);
    lines.area.setAttribute("d", area);
    lines.limit.setAttribute("d", limitPath(wholeOf(place, metric), ceiling));
  };
  return { element, slot };
}

/** When a device was throttled, and its events, on one strip. */
function marks(place) {
  const throttled = draw("path"), events = draw("path", { class: "events" });
  const box = { viewBox: `0 0 ${past.slots} 8`, preserveAspectRatio: "none", class: "marks", "aria-hidden": "true" };
  const element = draw("svg", box, throttled, events);
  const slot = () => {
    const { id } = model.devices[place], { highest } = past.of(id, "throttled");
    let path = "";
    for (let x = 0; x < past.slots; x++) if (past.at(highest, past.first + x) > 0) path += `M${x} 2H${x + 1}`;
    throttled.setAttribute("d", path);
    const places = past.events.filter((one) => one.id === id).map((one) => past.numberAt(Date.parse(one.time) / 1000));
    const shown = places.filter((number) => number >= past.first).map((number) => `M${number - past.first} 0V8`);
    events.setAttribute("d", shown.join(""));
  };
  return { element, slot };
}

// ---- One device: as a tile, a cell of the map, a row of the table. Each has `describe`, `update` and `slot` ----

// The metrics of a tile and of a row, with the headings there.
const SHORT = { temperature_celsius: "temp", power_watts: "power", memory_used_bytes: "memory", utilization_ratio: "util" };
const TILE = Object.keys(SHORT);

/** What else is to be said of a device, in short. */
function besides({ model: kind, findings, throttled_by, open_events }) {
  const words = findings.slice(1).map((one) => one.word);
  const reasons = throttled_by.length ? [`throttled: ${throttled_by.join(", ").replaceAll("_", " ")}`] : [];
  const events = open_events.filter((code) => !findings.some((one) => one.word === code));
  const isMixed = model.devices.some((one) => one.model !== kind);
  return [...words, ...reasons, ...events, isMixed ? kind : ""].filter(Boolean).join(" · ");
}

function tile(place) {
  const entry = model.devices[place];
  const state = make("span"), why = make("p");
  const measures = TILE.map((metric) => ({ metric, reading: reading(place, metric, "b"), spark: spark(place, metric) }));
  const strip = marks(place);
  const element = make(
    "article", { "data-device": entry.id },
    make("div", {}, make("h3", {}, linkTo(entry, entry.name)), state),
    why,
    make("div", { class: "measures" }, ...measures.map((one) =>
      make("div", {}, make("span", { class: "label" }, nameOf(one.metric)), one.reading.element, one.spark.element))),
    strip.element,
  );
  return {
    element,
    describe() {
      const now = model.devices[place];
      mark(state, now.condition);
      say(why, besides(now), besides(now));
      why.className = "why";
      element.className = `tile ${now.condition.severity}`;
    },
    update: () => measures.forEach((one) => one.reading.update()),
    slot() {
      measures.forEach((one) => one.spark.slot());
      strip.slot();
    },
  };
}

function cell(place, metric) {
  const entry = model.devices[place];
  const value = reading(place, metric, "b"), line = spark(place, metric, 4), state = make("span");
  value.element.lastChild.remove(); // the whole
  const element = linkTo(entry, make("span", { class: "unseen" }, `${entry.vendor} `));
  element.dataset.device = entry.id;
  element.tabIndex = -1;
  element.append(make("span", { class: "name" }, entry.device), value.element, state, line.element);
  let share = -1, ceiling = 1;
  return {
    element, place, metric, line,
    describe() {
      const now = model.devices[place];
      say(state, `, ${now.condition.word}`);
      state.className = "unseen";
      element.className = `cell ${now.condition.severity}`;
      element.title = `${now.name}: ${now.condition.word}\n${now.model ?? ""}`;
    },
    update() {
      value.update();
      const whole = wholeOf(place, metric) ?? ceiling;
      // Squared, so that what is idle stays pale.
      const part = 5 * Math.round(20 * Math.min(Math.max(valueOf(place, metric) ?? 0, 0) / whole, 1) ** 2);
      if (part !== share) element.style.setProperty("--share", `${(share = part)}%`);
    },
    slot(common) {
      ceiling = common;
      line.slot(Math.max(common, wholeOf(place, metric) ?? 0));
    },
  };
}

// The table's columns: what it is sorted by, its heading, the number to sort by.
const COLUMNS = [
  ["device", "device", (place) => -place],
  ["condition", "state", gravity],
  ...TILE.map((metric) => [metric, SHORT[metric], (place) => valueOf(place, metric) ?? -1]),
];

function row(place) {
  const entry = model.devices[place];
  const state = make("span"), readings = TILE.map((metric) => reading(place, metric, "td"));
  readings[0].element.lastChild.remove(); // limits stand in the card's view
  const element = make(
    "tr", { "data-device": entry.id },
    make("th", { scope: "row" }, linkTo(entry, entry.name)), make("td", {}, state), ...readings.map((one) => one.element),
  );
  return {
    element,
    describe: () => mark(state, model.devices[place].condition),
    update: () => readings.forEach((one) => one.update()),
    slot() {},
  };
}

// ---- All cards ----

const FIGURES = [
  ["Hottest", "temperature_celsius", (values) => Math.max(...values)],
  ["Power", "power_watts", (values) => values.reduce((a, b) => a + b)],
  ["Memory used", "memory_used_bytes", (values) => values.reduce((a, b) => a + b)],
  ["Mean utilization", "utilization_ratio", (values) => values.reduce((a, b) => a + b) / values.length],
];

/** The node in a few figures; those of the host come last. */
function figures() {
  const names = ["Devices up", ...FIGURES.map(([name]) => name), "Host CPU", "Host memory"];
  const items = names.map((name) => {
    const value = document.createTextNode(""), note = make("small");
    return { value, note, element: make("div", {}, make("dt", {}, name), make("dd", {}, value, note)) };
  });
  const set = (item, value, note = "") => {
    item.element.hidden = !value;
    if (item.value.data !== value) item.value.data = value;
    say(item.note, note && ` ${note}`);
  };
  return {
    element: make("dl", { class: "figures" }, ...items.map((item) => item.element)),
    update() {
      const whole = [...model.devices.keys()].filter((place) => !model.devices[place].parent);
      const up = whole.filter((place) => model.devices[place].up);
      set(items[0], whole.length ? `${up.length}` : "", up.length < whole.length ? `of ${whole.length}` : "");
      FIGURES.forEach(([, metric, together], i) => {
        const values = up.map((place) => valueOf(place, metric)).filter((value) => value !== null);
        const note = values.length < up.length ? `from ${values.length} of ${up.length}` : "";
        set(items[i + 1], values.length ? inWords(together(values), metric) : "", note);
      });
      const [cpu, used, total] = model.host;
      set(items.at(-2), cpu == null ? "" : percent(cpu));
      set(items.at(-1), used == null ? "" : bytes(used), total == null ? "" : `of ${bytes(total)}`);
    },
  };
}

/** The search, the map's metric, and how many cards are in which state. */
function tools() {
  const search = make("input", { type: "search", placeholder: "Filter", "aria-label": "Filter devices", maxlength: "200" });
  search.addEventListener("input", () => choose({ filter: search.value }));
  const choices = model.state.columns.filter((metric) => metric !== CAP);
  const select = make("select", { "aria-label": "Metric of the map" },
    ...choices.map((metric) => make("option", { value: metric }, nameOf(metric))));
  select.addEventListener("change", () => choose({ metric: select.value }));
  select.hidden = isSmall();
  search.hidden = model.devices.length < 2;
  const counts = make("div", { class: "counts" });
  return {
    element: make("div", { class: "tools" }, make("h2", {}, "Devices"), search, select, counts),
    describe() {
      const { filter, metric } = chosen();
      if (search.value !== filter) search.value = filter;
      select.value = metric;
      const of = (severity) => model.devices.filter((one) => one.condition.severity === severity);
      const told = SEVERITIES.map((severity) => [severity, of(severity)]).filter(([, some]) => some.length);
      counts.replaceChildren(...told.map(([severity, some]) => {
        const words = [...new Set(some.map((one) => one.condition.word))];
        const element = make("span");
        mark(element, { word: `${some.length} ${words.length > 1 ? severity : words[0]}`, severity });
        element.title = words.join(", ");
        return element;
      }));
    },
  };
}

function tiles() {
  const views = model.devices.map((_, place) => tile(place));
  const few = model.devices.length <= 4 ? " few" : "";
  return { element: make("div", { class: `tiles${few}` }, ...views.map((view) => view.element)), views, order() {} };
}

/** The map: each card a cell; one of them is reached by Tab, the others by the arrows. */
function map() {
  const { metric } = chosen();
  const views = model.devices.map((_, place) => cell(place, metric));
  const isLong = ["bytes", "hertz"].includes(unitOf(metric));
  const element = make("div", { id: "map", class: isLong ? "map long" : "map", role: "group", "aria-label": `Map of ${nameOf(metric)}` });
  const vendors = new Set(model.devices.map((one) => one.vendor));
  for (const vendor of vendors) {
    if (vendors.size > 1) element.append(make("p", { title: vendor }, vendor));
    element.append(...views.filter(({ place }) => model.devices[place].vendor === vendor).map((view) => view.element));
  }
  element.addEventListener("keydown", moveInMap);
  element.addEventListener("focusin", ({ target }) => {
    element.querySelectorAll("a").forEach((one) => (one.tabIndex = one === target ? 0 : -1));
  });
  const slot = () => {
    const ids = model.devices.map((one) => one.id), common = ceilingOf(0, metric, ids);
    views.forEach((view) => view.slot(common));
  };
  return { element, metric, slot, views: views.map((view) => ({ ...view, slot() {} })), order() {} };
}

function moveInMap(event) {
  const cells = [...event.currentTarget.querySelectorAll("a:not([hidden])")];
  const here = cells.indexOf(document.activeElement);
  const columns = cells.filter((one) => one.offsetTop === cells[0].offsetTop).length;
  const to = { ArrowLeft: here - 1, ArrowRight: here + 1, ArrowUp: here - columns, ArrowDown: here + columns, Home: 0, End: cells.length - 1 };
  if (here < 0 || !(event.key in to) || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  cells[to[event.key]]?.focus();
}

const ROWS_OF_A_TABLE = 16, TABLE_PIXELS = 590;

/** The table, worst first; on wide screens it goes on beside itself. */
function table() {
  const views = model.devices.map((_, place) => row(place));
  const element = make("div", { class: "tables" });
  let shown = "";
  const order = () => {
    const { sort, filter } = chosen();
    const places = sorted([...views.keys()].filter((place) => isWanted(place, filter)), sort);
    const most = Math.max(1, Math.floor(find("main").clientWidth / TABLE_PIXELS));
    const count = Math.max(1, Math.min(most, Math.ceil(places.length / ROWS_OF_A_TABLE)));
    const wanted = `${sort} ${count} ${places}`;
    if (wanted === shown) return;
    shown = wanted;
    const length = Math.ceil(places.length / count);
    keepingFocus(() => element.replaceChildren(...Array.from({ length: count }, (_, i) =>
      tableOf(places.slice(i * length, (i + 1) * length).map((place) => views[place].element), sort, i === 0))));
  };
  return { element, views, order };
}

function sorted(places, sort) {
  const by = COLUMNS.find(([key]) => key === sort.replace("-", ""))[2];
  const sign = sort.startsWith("-") ? -1 : 1;
  return places.sort((a, b) => sign * (by(a) - by(b)) || a - b);
}

/** One piece of the table; the first has the headings that sort. */
function tableOf(rows, sort, isFirst) {
  const key = sort.replace("-", ""), isFalling = sort.startsWith("-") !== (key === "device");
  const headings = COLUMNS.map(([column, name]) => {
    if (!isFirst) return make("th", { scope: "col" }, name);
    const button = make("button", { type: "button", "data-sort": column }, name);
    button.addEventListener("click", () => choose({ sort: key === column && sort.startsWith("-") ? column : `-${column}` }));
    return make("th", { scope: "col", "aria-sort": key !== column ? null : isFalling ? "descending" : "ascending" }, button);
  });
  return make("table", { class: "dense" }, make("thead", {}, make("tr", {}, ...headings)), make("tbody", {}, ...rows));
}

/** Do it, and have the focus where it was before, though its element was made anew. */
function keepingFocus(act) {
  const had = document.activeElement, { device } = had?.closest("[data-device]")?.dataset ?? {};
  const within = had?.closest("#map") ? "#map " : had?.closest("table") ? "table " : "";
  act();
  if (!had || had === document.activeElement) return;
  if (had.isConnected) had.focus();
  else if (had.dataset.sort) find(`[data-sort="${had.dataset.sort}"]`)?.focus();
  else if (device !== undefined) focusOn(device, within);
}

function focusOn(device, within = "") {
  const element = find(`${within}[data-device="${CSS.escape(device)}"]`);
  (element?.matches("a") ? element : element?.querySelector("a"))?.focus();
}

const eventLine = (event) => {
  const name = model.devices[model.places.get(event.id)]?.name ?? event.id;
  const text = [utc(Date.parse(event.time) / 1000).slice(11), name, event.code, event.text].filter(Boolean).join(" · ");
  return make("li", { title: text }, text);
};

/** Events of some devices, the newest first; nothing where there is none. */
function eventList(most, isWantedEvent) {
  const list = make("ul", { class: "events" });
  const element = make("section", {}, make("h2", {}, "Events"), list);
  let before = -1;
  return {
    element,
    slot() {
      const events = past.events.filter(isWantedEvent);
      element.hidden = !events.length;
      if (events.length !== before) list.replaceChildren(...events.slice(-most).reverse().map(eventLine));
      before = events.length;
    },
  };
}

function sourceItem(source) {
  const state = make("span");
  mark(state, source);
  const failing = source.polls.filter((poll) => poll.state !== source.state);
  const polls = failing.map((poll) => `${poll.poll}: ${poll.state.replaceAll("_", " ")}`).join(", ");
  const problems = source.problems.map((one) => make("small", { class: "problem" }, `${one.where}: ${one.text}`));
  return make("li", {}, make("b", {}, source.source), " ", state, make("small", {}, ` ${source.version ?? ""} ${polls}`), ...problems);
}

function troubleItem({ what, why, remedy }) {
  return make("li", {}, make("strong", {}, what), `: ${why}`, make("br"), make("span", { class: "dim" }, ...withCode(remedy)));
}

function overview() {
  const head = figures(), chooser = tools(), cards = isSmall() ? tiles() : map(), list = isSmall() ? null : table();
  const events = eventList(6, () => true);
  const troubles = make("ul", { class: "troubles" }), sources = make("ul", { class: "sources" });
  const nothing = make("p", { class: "empty" }, "No source lists a device.");
  const views = [...cards.views, ...(list?.views ?? [])];
  return {
    metric: cards.metric,
    element: make("div", {}, head.element, troubles, chooser.element, model.devices.length ? cards.element : nothing,
      list?.element ?? "", make("div", { class: "more" }, events.element,
        make("section", {}, make("h2", {}, "Sources"), sources))),
    describe() {
      views.forEach((view) => view.describe());
      chooser.describe();
      const { filter } = chosen();
      cards.views.forEach((view, place) => (view.element.hidden = !isWanted(place, filter)));
      const [first] = cards.views.filter((view) => !view.element.hidden);
      if (cards.metric && first && !cards.element.querySelector("[tabindex='0']:not([hidden])")) first.element.tabIndex = 0;
      list?.order();
    },
    node() {
      troubles.replaceChildren(...model.state.troubles.map(troubleItem));
      sources.replaceChildren(...model.state.sources.map(sourceItem));
    },
    update() {
      head.update();
      views.forEach((view) => view.update());
    },
    slot() {
      views.forEach((view) => view.slot());
      cards.slot?.();
      events.slot();
      list?.order();
    },
  };
}

// ---- One card: all its readings or their reasons, its charts, its events ----

/** A metric's half hour, with a line that is put to a moment. */
function chart(place, metric) {
  const { id } = model.devices[place], value = reading(place, metric, "b"), at = make("span", { class: "at" });
  const { element, lines } = drawing("gap", "area", "top", "line", "limit", "cross"), scale = make("span");
  const slot = () => {
    const ring = past.of(id, metric), ceiling = ceilingOf(place, metric), { line, area } = paths(ring.last, ceiling);
    let gaps = "";
    for (let x = 0; x < past.slots; x++)
      if (Number.isNaN(past.at(ring.last, past.first + x))) gaps += `M${x} 0H${x + 1}V${HEIGHT}H${x}Z`;
    const limit = limitPath(wholeOf(place, metric), ceiling);
    const drawn = { line, area, top: paths(ring.highest, ceiling).line, gap: gaps, limit };
    for (const [name, path] of Object.entries(drawn)) lines[name].setAttribute("d", path);
    say(scale, `0 to ${inWords(ceiling, metric)}`);
  };
  /** What was at a moment, in words: a number or the reason why there is none. */
  const words = (number) => {
    const { last, highest } = past.of(id, metric), value = past.at(last, number), most = past.at(highest, number);
    if (Number.isNaN(value)) return past.reason(id, metric, number) || "no reading";
    const said = inWords(value, metric), peak = inWords(most, metric);
    return said === peak ? said : `${said} (highest ${peak})`;
  };
  const name = nameOf(metric), minutes = (past.slots * past.slotSeconds) / 60;
  return {
    name, value, slot, words,
    element: make("div", { class: "chart" }, make("div", {}, make("h3", {}, name), value.element, at), element,
      make("div", { class: "scale" }, make("span", {}, `${minutes} min ago`), scale, make("span", {}, "now"))),
    point(number) {
      lines.cross.setAttribute("d", number === null ? "" : `M${number - past.first + 0.5} 0V${HEIGHT}`);
      const said = number === null ? "" : words(number);
      say(at, said, said);
    },
  };
}

/** The charts with one moment for all of them, put there by the pointer or the arrow keys. */
function charts(place) {
  const { id } = model.devices[place];
  const all = model.state.columns.filter((metric) => metric !== CAP && metric !== "throttled").map((metric) => chart(place, metric));
  const element = make("div", { class: "charts", role: "slider", tabindex: "0", "aria-label": "Moment of the last half hour" },
    ...all.map((one) => one.element));
  const output = make("output", { "aria-live": "off" });
  let moment = null;
  const point = (number) => {
    moment = number === null ? null : Math.min(Math.max(number, past.first), past.newest - 1);
    all.forEach((one) => one.point(moment));
    const ago = moment === null ? 0 : past.newest - moment;
    const throttled = moment !== null && past.at(past.of(id, "throttled").highest, moment) > 0 ? ["throttled"] : [];
    const words = moment === null ? [] : [utc(past.timeOf(moment)).slice(11), ...throttled, ...all.map((one) => `${one.name} ${one.words(moment)}`)];
    say(output, words.join(" · "));
    const values = { min: 1 - past.slots, max: 0, now: 1 - Math.max(ago, 1), text: words.join(", ") || "now" };
    for (const [name, value] of Object.entries(values)) element.setAttribute(`aria-value${name}`, value);
  };
  element.addEventListener("pointermove", (event) => {
    const box = event.target.closest(".chart")?.querySelector("svg").getBoundingClientRect();
    if (box) point(past.first + Math.floor((past.slots * (event.clientX - box.left)) / box.width));
  });
  element.addEventListener("pointerleave", () => point(null));
  element.addEventListener("keydown", (event) => {
    const from = moment ?? past.newest, page = Math.round(60 / past.slotSeconds);
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, ArrowDown: from - 1, ArrowUp: from + 1, PageDown: from - page, PageUp: from + page, Home: past.first, End: past.newest };
    if (!(event.key in to) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    point(to[event.key]);
  });
  point(null);
  return {
    element, output,
    update: () => all.forEach((one) => one.value.update()),
    slot() {
      all.forEach((one) => one.slot());
      if (moment !== null) point(moment);
    },
  };
}

/** Have the list show these lines, touching only those that changed. */
function adopt(element, lines) {
  lines.forEach((line, i) => {
    const old = element.children[i];
    if (!old) element.append(line);
    else if (old.textContent !== line.textContent) old.replaceWith(line);
  });
  while (element.childElementCount > lines.length) element.lastChild.remove();
}

function card(place) {
  const { id } = model.devices[place];
  const heading = make("h2", { tabindex: "-1" }), state = make("span"), kind = make("span", { class: "model dim" });
  const findings = make("ul", { class: "findings" }), strip = marks(place), drawn = charts(place);
  const readings = make("dl", { class: "list" }), events = eventList(256, (event) => event.id === id);
  const back = make("a", { href: addressOf({ card: "" }), "data-back": "" }, "← All devices");
  let isAsked = false;
  const ask = async () => {
    const known = (await pageAt(`?${new URLSearchParams({ device: id })}`))?.querySelector(".list");
    if (known) adopt(readings, [...known.children]);
  };
  return {
    element: make("section", { id: "card", "aria-label": "One device" }, make("div", {}, back, heading, state, kind), findings, drawn.element, strip.element,
      drawn.output, events.element, make("h3", {}, "Readings"), readings),
    id, place,
    opened() {
      heading.focus({ preventScroll: true });
      scrollTo(0, 0);
      ask();
      askForPast({ device: id });
    },
    describe() {
      const now = model.devices[place];
      say(heading, now.name, now.name);
      mark(state, now.condition);
      say(kind, now.model ?? "", now.model ?? "");
      const told = now.findings.filter((one) => one.remedy);
      findings.replaceChildren(...told.map((one) => make("li", {}, make("strong", {}, one.word), ": ", ...withCode(one.remedy))));
    },
    node() {},
    update: drawn.update,
    slot() {
      drawn.slot();
      strip.slot();
      events.slot();
      if (isAsked) ask();
      isAsked = true;
      const isNew = (metric) => Number.isNaN(past.at(past.of(id, metric).last, past.newest - 1)) && !past.reason(id, metric, past.newest - 1);
      if (model.state.columns.some(isNew)) askForPast({ device: id });
    },
  };
}

// ---- What is shown ----

let all = null, one = null, isLive = false;

/** Put what the address names in sight. */
function show() {
  if (!isLive) return;
  const { card: id, metric } = chosen(), main = find("main"), left = one?.id;
  if (!all || (all.metric && all.metric !== metric)) {
    const isOther = all !== null;
    all = overview();
    all.node();
    if (isOther) askForPast(isSmall() ? {} : { metric });
  }
  if (one?.id !== id) one = id ? card(model.places.get(id)) : null;
  const wanted = (one ?? all).element;
  if (main.firstChild !== wanted || main.childNodes.length > 1) main.replaceChildren(wanted);
  main.classList.remove("plain");
  refresh();
  if (one && one.id !== left) one.opened();
  else if (!one && left) focusOn(left);
}

/** Have all of what is in sight say what is so now. */
function refresh() {
  if (!isLive || document.hidden) return;
  const view = one ?? all;
  view.describe();
  view.update();
  view.slot();
}

function showNode() {
  const { hostname, inventory, notes } = model.state;
  say(find("h1"), hostname, hostname);
  say(find(".inventory"), inventory, inventory);
  find("#notes").replaceChildren(...notes.map((note) => make("p", { class: "note" }, note)));
  const worst = model.devices.filter((device) => ["bad", "warning"].includes(device.condition.severity)).length;
  document.title = `${worst ? `▲ ${worst} · ` : ""}${hostname} · device telemetry`;
}

function takeState(state) {
  if (state.version !== page.version && sessionStorage.getItem("version") !== state.version) {
    sessionStorage.setItem("version", state.version);
    location.reload();
    return;
  }
  const ids = (devices) => devices.map((device) => device.id).join("\n");
  const isSame = isLive && ids(state.devices) === ids(model.devices);
  const before = new Map([...model.places].map(([id, place]) => [id, model.values[place]]));
  Object.assign(model, { state, devices: state.devices, places: new Map(state.devices.map((device, i) => [device.id, i])) });
  model.values = model.devices.map((device) => before.get(device.id) ?? null);
  const wasLive = isLive;
  isLive = true;
  showNode();
  bannerSays("");
  if (!isSame) keepingFocus(() => {
    all = one = null;
    show();
  });
  else {
    all.node();
    refresh();
  }
  if (!wasLive || !isSame) askForPast(isSmall() ? {} : { metric: chosen().metric });
}

function takeDevice(entry) {
  const place = model.places.get(entry.id);
  if (place === undefined) return;
  const before = model.devices[place];
  model.devices[place] = entry;
  if (before.condition.word !== entry.condition.word) say(find("#news"), `${entry.name}: ${entry.condition.word}`);
  if (`${before.open_events}` !== `${entry.open_events}`) setTimeout(askForPast, 1000, { device: entry.id, metric: "throttled" });
  showNode();
  if (!document.hidden) (one ?? all).describe();
}

function takeReadings({ time, valid_seconds, host, values }) {
  const { scales, columns } = model.state;
  model.values = values.map((row) => row && row.map((value, i) => (value === null ? null : value * scales[i])));
  Object.assign(model, { time, host, until: valid_seconds === null ? Infinity : performance.now() + valid_seconds * 1000 });
  const hasEnded = past.add(time, model.devices, columns, model.values);
  document.body.classList.remove("stale");
  if (document.hidden) return;
  say(find(".time"), utc(time));
  if (hasEnded) (one ?? all).slot();
  (one ?? all).update();
}

// ---- The daemon: its documents, its stream, and whether it is there ----

const SILENCE = 2300, PATIENCE = 2, PLAIN = 5000, LONGEST_PAUSE = 15000;
const link = { source: null, lastId: "", heard: performance.now(), pause: 1000, timer: 0, isChecking: false };

/** What the daemon answers, null where it does not; whoever watches the stream says so. */
const got = (path, seconds = 30) =>
  fetch(`./${path}`, { cache: "no-store", signal: AbortSignal.timeout(1000 * seconds) })
    .then((answer) => (answer.ok ? answer.text() : null))
    .catch(() => null);

/** The page that works without a script, or that of a device. */
async function pageAt(query) {
  const text = await got(query);
  return text && new DOMParser().parseFromString(text, "text/html");
}

async function askForPast(wanted) {
  const known = JSON.parse(await got(`api/v1/history?${new URLSearchParams(wanted)}`));
  if (!known || !isLive) return;
  past.take(known);
  refresh();
}

const isThere = () => got("healthz", PATIENCE);

const TAKES = {
  state: takeState,
  device: takeDevice,
  readings: takeReadings,
  history: ({ id, series, ...rest }) => past.take({ ...rest, devices: id === undefined ? [] : [{ id, series }] }),
};

function connect() {
  clearTimeout(link.timer);
  link.source?.close();
  const source = new EventSource(`./api/v1/events${link.lastId && `?${new URLSearchParams({ last_event_id: link.lastId })}`}`);
  link.source = source;
  link.heard = performance.now();
  for (const [name, take] of Object.entries(TAKES))
    source.addEventListener(name, (event) => {
      if (source !== link.source) return;
      Object.assign(link, { heard: performance.now(), lastId: event.lastEventId, pause: 1000 });
      if (name === "state" || isLive) take(JSON.parse(event.data));
    });
  source.onerror = async () => {
    const isRefused = source.readyState === EventSource.CLOSED;
    if (source !== link.source) return;
    disconnect();
    if (!(await isThere())) gone();
    else if (isRefused) goPlain();
    else later(connect);
  };
}

function disconnect() {
  link.source?.close();
  link.source = null;
}

/** Do it after a pause, which grows from turn to turn; chance keeps many pages from coming at the same time. */
function later(act) {
  clearTimeout(link.timer);
  link.timer = setTimeout(act, link.pause * (0.75 + Math.random() / 2));
  link.pause = Math.min(link.pause * 2, LONGEST_PAUSE);
}

function bannerSays(text) {
  const banner = find("#banner");
  banner.hidden = !text;
  say(banner, text);
  document.body.classList.toggle("live", !text);
}

function gone() {
  disconnect();
  bannerSays(`The daemon does not answer. These are the last values, of ${find(".time").textContent}.`);
  later(comeBack);
}

async function comeBack() {
  if (await isThere()) connect();
  else later(comeBack);
}

/** All streams are taken: show the page that works without a script, anew every few seconds. */
async function goPlain() {
  link.timer = setTimeout(connect, PLAIN);
  const other = await pageAt("");
  if (!other) return gone();
  for (const selector of ["h1", ".inventory", ".time", "#notes", "main"])
    find(selector).replaceChildren(...other.querySelector(selector).childNodes);
  model.until = performance.now() + 3 * PLAIN;
  document.body.classList.remove("stale");
  find("main").classList.add("plain");
  isLive = false;
  all = one = null;
  past.clear();
  bannerSays(`Too many pages are open for live values: this one shows new ones every ${PLAIN / 1000} s.`);
}

/** Look whether values are old, and whether a silent daemon is there at all. */
async function watch() {
  const now = performance.now();
  document.body.classList.toggle("stale", now > model.until);
  if (link.isChecking || !link.source || now - link.heard < SILENCE) return;
  link.isChecking = true;
  const { source } = link, isAnswering = await isThere();
  link.isChecking = false;
  if (source !== link.source) return;
  if (!isAnswering) gone();
  else if (now > model.until + LONGEST_PAUSE) connect();
  link.heard = performance.now();
}

// ---- The beginning ----

addEventListener("hashchange", show);
addEventListener("popstate", show);
addEventListener("resize", () => isLive && !one && all.describe());
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && isLive && model.time) say(find(".time"), utc(model.time));
  refresh();
});
document.addEventListener("click", (event) => {
  const anchor = event.target.closest("a");
  if (!anchor || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const isSkip = anchor.matches(".skip"), device = anchor.closest("[data-device]")?.dataset.device;
  if (!isSkip && (!isLive || (device === undefined && !("back" in anchor.dataset)))) return;
  event.preventDefault();
  if (isSkip) find("main").focus();
  else choose({ card: device ?? "" });
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || !isLive) return;
  if (event.key === "Escape" && one) choose({ card: "" });
  const search = find("input[type=search]");
  if (event.key !== "/" || !search || document.activeElement === search) return;
  event.preventDefault();
  search.focus();
});
setInterval(watch, 250);
connect();
