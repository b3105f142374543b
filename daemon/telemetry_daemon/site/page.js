// The live page. Texts are put in as text, never as markup.
"use strict";

// ---- Numbers in words, as in human.py ----

const ABSENT = "–";

/** Rounds ties to even, as Python does. */
function fixed(value, decimals) {
  const scaled = Math.abs(value) * 10 ** decimals;
  const isTie = scaled % 1 === 0.5 && Number.isInteger(value * 2 ** (decimals + 1));
  const nearest = isTie ? (Math.sign(value) * 2 * Math.round(scaled / 2)) / 10 ** decimals : value;
  return nearest.toFixed(decimals);
}

function digits(value) {
  const size = Math.abs(value);
  if (Number.isInteger(value) || size >= 99.95) return fixed(value, 0);
  if (size >= 0.005) return fixed(value, size >= 9.995 ? 1 : 2);
  return size >= 1e-4 ? `${Number(value.toPrecision(2))}` : value.toExponential(1).replace(".0", "").replace(/-(\d)$/, "-0$1");
}

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  while (Math.abs(value) >= 1024 * 0.9995 && units.length > 1) {
    value /= 1024;
    units.shift();
  }
  return `${digits(value)} ${units[0]}`;
}

function percent(ratio) {
  const value = ratio * 100, isWhole = (value >= 9.95 && value <= 99) || value >= 100;
  return value > 0 && value < 0.1 ? "<0.1 %" : `${fixed(value, isWhole ? 0 : 1).replace(/\.0$/, "")} %`;
}

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
const utc = (time) => `${new Date(time * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
const secondsOf = (text) => Date.parse(text) / 1000;

// ---- The last half hour: a number for each slot, NaN for a gap ----

const greatest = (numbers) => numbers.reduce((a, b) => (b > a ? b : a), 0);

class Past {
  constructor(slotSeconds, slots) {
    Object.assign(this, { slotSeconds, slots, newest: 0, series: new Map(), peaks: {}, events: [] });
  }

  of(id, metric) {
    const key = `${metric} ${id}`, empty = () => new Float32Array(this.slots + 1).fill(NaN);
    if (!this.series.has(key)) this.series.set(key, { metric, last: empty(), highest: empty(), gaps: [] });
    return this.series.get(key);
  }

  numberAt(time) {
    return Math.floor(time / this.slotSeconds);
  }

  get first() {
    return this.newest - this.slots;
  }

  at(numbers, number) {
    return numbers[number - this.first] ?? NaN;
  }

  /** Returns whether this is a new slot, so that the previous slot has ended. */
  advance(number) {
    const by = number - this.newest;
    if (by <= 0) return false;
    for (const { last, highest } of this.series.values())
      for (const numbers of [last, highest]) numbers.copyWithin(0, by).fill(NaN, -by);
    Object.assign(this, { newest: number, peaks: {} });
    return true;
  }

  /** Adds readings; returns whether a slot has ended. */
  add(time, devices, columns, rows) {
    const hasEnded = this.advance(this.numberAt(time)), place = this.slots;
    rows.forEach((row, i) =>
      columns.forEach((metric, column) => {
        const { last, highest } = this.of(devices[i].id, metric), value = row?.[column] ?? NaN;
        last[place] = value;
        if (!(highest[place] >= value)) highest[place] = value;
      }),
    );
    return hasEnded;
  }

  /** Adds a document of history, or an event of that name. */
  take({ start, slots, devices, events = [] }) {
    const begin = this.numberAt(secondsOf(start) + this.slotSeconds / 2);
    this.advance(begin + slots);
    for (const { id, series } of devices)
      for (const [metric, { last, highest = last, gaps = [] }] of Object.entries(series)) {
        const ours = this.of(id, metric);
        // Slots before the half hour have negative indices, which typed arrays ignore.
        last.forEach((value, i) => (ours.last[begin + i - this.first] = value ?? NaN));
        highest.forEach((value, i) => (ours.highest[begin + i - this.first] = value ?? NaN));
        const before = ours.gaps.filter((gap) => gap.first < begin);
        ours.gaps = [...before, ...gaps.map((gap) => ({ ...gap, first: gap.first + begin }))];
      }
    const keyOf = (event) => `${event.time} ${event.id} ${event.code}`, known = new Set(this.events.map(keyOf));
    this.events.push(...events.filter((event) => !known.has(keyOf(event))));
    this.events.sort((a, b) => secondsOf(a.time) - secondsOf(b.time));
  }

  reason(id, metric, number) {
    const gap = this.of(id, metric).gaps.find((one) => number >= one.first && number < one.first + one.slots);
    return gap?.reason.replaceAll("_", " ") ?? "";
  }

  peak(wanted) {
    const peaks = () => [...this.series.values()].map(({ metric, highest }) => (metric === wanted ? greatest(highest) : 0));
    return (this.peaks[wanted] ??= greatest(peaks()));
  }
}

// ---- What the daemon sent, and what was chosen ----

const page = document.documentElement.dataset;
const newPast = () => new Past(Number(page.slotSeconds), Number(page.slots));
let past = newPast();
const model = { state: null, devices: [], places: new Map(), values: [], time: 0, host: [], until: Infinity, isChanged: false };
const MAX_TILES = 16, AT_CAP = 0.97;
const CAP = "power_cap_watts";
const isSmall = () => model.devices.length <= MAX_TILES;
const metrics = () => model.state.columns.filter((metric) => metric !== CAP);

const valueOf = (place, metric) => model.values[place]?.[model.state.columns.indexOf(metric)] ?? null;

function wholeOf(place, metric) {
  if (metric === "power_watts") return valueOf(place, CAP);
  const names = { temperature_celsius: "limit_celsius", memory_used_bytes: "memory_total_bytes" };
  return model.devices[place][names[metric]] ?? null;
}

/** The number at the upper edge of a drawing. */
function ceilingOf(place, metric) {
  if (["ratio", "throttled"].includes(unitOf(metric))) return 1;
  const whole = wholeOf(place, metric);
  return (whole ? Math.max(whole, greatest(past.of(model.devices[place].id, metric).highest)) : past.peak(metric)) || 1;
}

const SEVERITIES = ["bad", "warning", "quiet", "good"], NEED_NOTHING = 2;
const agesInWords = (seconds) => (seconds < 120 ? `${Math.round(seconds)} s` : seconds < 7200 ? `${Math.round(seconds / 60)} min`
  : `${Math.round(seconds / 3600)} h`);

/** The condition in words, for an unread device with the age of its last reading. */
function conditionOf(place) {
  const { condition, up, last_read: lastRead } = model.devices[place];
  if (up !== null || !lastRead) return condition;
  return { ...condition, word: `${condition.word}, last read ${agesInWords(Math.max(0, model.time - secondsOf(lastRead)))} ago` };
}

const gravity = (place) => SEVERITIES.length - Math.min(NEED_NOTHING, SEVERITIES.indexOf(model.devices[place].condition.severity));

const given = () => new URLSearchParams(location.hash.slice(1));

function chosen() {
  const { card, filter = "", metric, sort = "" } = Object.fromEntries(given());
  return {
    card: model.places.has(card) ? card : "",
    filter,
    metric: metrics().includes(metric) ? metric : metrics()[0],
    sort: COLUMNS.some(([key]) => key === sort.replace("-", "")) ? sort : "-condition",
  };
}

function addressOf(changes) {
  const parameters = given();
  for (const [name, value] of Object.entries(changes)) value ? parameters.set(name, value) : parameters.delete(name);
  return `${parameters}` ? `#${parameters}` : location.href.split("#")[0];
}

function choose(changes) {
  history["card" in changes ? "pushState" : "replaceState"](null, "", addressOf(changes));
  show();
}

function isWanted(place, filter) {
  const { id, name, model: kind, condition, findings, owners } = model.devices[place];
  const said = findings.flatMap((one) => [one.word, one.words]);
  const words = [name, id, kind, condition.severity, owners, ...said].join("\n").toLowerCase();
  return words.includes(filter.trim().toLowerCase());
}

// ---- Elements ----

function put(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
const make = (tag, attributes = {}, ...children) => put(document.createElement(tag), attributes, children);
const draw = (tag, attributes, ...children) =>
  put(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const find = (selector) => document.querySelector(selector);

/** Changes only what differs. A text that may be cut has a title. */
function say(element, text, title = null) {
  if (element.textContent !== text) element.textContent = text;
  if (title !== null && element.title !== title) element.title = title;
}

const withCode = (text) => text.split("`").map((part, i) => (i % 2 ? make("code", {}, part) : part));

const linkTo = ({ id, name, model: kind }, ...children) =>
  make("a", { href: `#${new URLSearchParams({ card: id })}`, title: `${name}\n${kind ?? ""}` }, ...children);

function mark(element, { word, severity }) {
  say(element, word, word);
  element.className = `state ${severity}`;
  return element;
}

/** All parts `describe` devices, `update` readings, and draw when a `slot` has ended. */
function view(element, parts, own = {}) {
  const each = (name) => () => {
    own[name]?.();
    parts.forEach((part) => part[name]());
  };
  return { element, describe: each("describe"), update: each("update"), slot: each("slot") };
}

function stateOf(place) {
  const element = make("span");
  const describe = () => mark(element, conditionOf(place));
  return view(element, [], { describe, update: () => model.devices[place].up === null && describe() });
}

function reading(place, metric, tag, hasWhole = true) {
  const number = document.createTextNode(""), whole = make("small"), element = make(tag, { "data-metric": metric }, number);
  if (hasWhole) element.append(whole);
  let before;
  const update = () => {
    const value = valueOf(place, metric), all = wholeOf(place, metric);
    const why = past.reason(model.devices[place].id, metric, past.newest - 1) || "no reading";
    const now = `${value} ${all} ${value ?? why}`;
    if (now === before) return;
    before = now;
    const none = model.devices[place].shares_host_memory && metric === "memory_used_bytes" ? "shared with host" : ABSENT;
    number.data = value === null ? none : inWords(value, metric);
    whole.textContent = all === null ? "" : ` of ${inWords(all, metric)}`;
    element.title = value === null ? why : "";
  };
  return view(element, [], { update });
}

// ---- Drawings ----

const HEIGHT = 1000, ROOM = 60;

/** A line and the area below it, both interrupted at gaps. */
function paths(ring, ceiling, step = 1) {
  let line = "", area = "", points = "", begin = 0;
  const end = (x) => {
    if (points) line += `M${points}`;
    if (points) area += `M${begin} ${HEIGHT}L${points}L${x} ${HEIGHT}Z`;
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
    } else end(x - step / 2);
  }
  end(past.slots - step / 2);
  return { line, area };
}

function stretches(isSo, path) {
  let all = "";
  for (let x = 0; x < past.slots; x++) if (isSo(past.first + x)) all += path(x);
  return all;
}

function drawing(classes, top, height) {
  const lines = Object.fromEntries(classes.split(" ").map((name) => [name, draw("path", { class: name })]));
  const box = { viewBox: `0 ${top} ${past.slots} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" };
  const fill = (made) => {
    for (const name in made) lines[name]?.setAttribute("d", made[name]);
  };
  const element = draw("svg", { class: "spark", ...box }, ...Object.values(lines));
  const zoom = (first, count) => element.setAttribute("viewBox", `${first - past.first} ${top} ${count} ${height}`);
  return { element, fill, zoom };
}

function spark(place, metric, step = 1, classes = "area line limit") {
  const { element, fill, zoom } = drawing(classes, -ROOM, HEIGHT + ROOM);
  const slot = () => {
    const { last, highest } = past.of(model.devices[place].id, metric);
    const ceiling = ceilingOf(place, metric), whole = wholeOf(place, metric);
    fill({ ...paths(last, ceiling, step), limit: whole ? `M0 ${Math.round(HEIGHT * (1 - whole / ceiling))}H${past.slots}` : "" });
    if (!classes.includes("gap")) return;
    const gap = stretches((number) => Number.isNaN(past.at(last, number)), (x) => `M${x} 0H${x + 1}V${HEIGHT}H${x}Z`);
    const happened = eventSlots(model.devices[place].id);
    const event = stretches((number) => happened.has(number), (x) => `M${x + 0.5} 0V${HEIGHT}`);
    fill({ gap, event, top: paths(highest, ceiling).line });
  };
  return { ...view(element, [], { slot }), fill, zoom };
}

const eventSlots = (id) =>
  new Set(past.events.filter((event) => event.id === id).map((event) => past.numberAt(secondsOf(event.time))));

/** When a device was at its power cap, was throttled by something else, and had events, on one strip. */
function marks(place) {
  const { element, fill, zoom } = drawing("capped throttled events", 0, 8), { id } = model.devices[place];
  element.setAttribute("class", "marks");
  const slot = () => {
    const { highest } = past.of(id, "throttled"), power = past.of(id, "power_watts").highest, cap = past.of(id, CAP).last;
    const happened = eventSlots(id);
    fill({
      capped: stretches((number) => past.at(power, number) >= AT_CAP * past.at(cap, number), (x) => `M${x} 2H${x + 1}`),
      throttled: stretches((number) => past.at(highest, number) > 0, (x) => `M${x} 2H${x + 1}`),
      events: stretches((number) => happened.has(number), (x) => `M${x} 0V8`),
    });
  };
  return { ...view(element, [], { slot }), zoom };
}

// ---- A device as tile, cell and row ----

const SHORT = { temperature_celsius: "temp", power_watts: "power", memory_used_bytes: "memory", utilization_ratio: "util" };

function besides({ model: kind, findings, owners }) {
  const isMixed = model.devices.some((one) => one.model !== kind);
  const [{ word, words }, ...others] = findings;
  return [owners, words !== word && words, ...others.map((one) => one.words), isMixed && kind].filter(Boolean).join(" · ");
}

function tile(place) {
  const entry = model.devices[place], state = stateOf(place), strip = marks(place), why = make("p", { class: "why" });
  const parts = Object.keys(SHORT).map((metric) => {
    const value = reading(place, metric, "b"), line = spark(place, metric);
    return view(make("div", {}, make("span", { class: "label" }, nameOf(metric)), value.element, line.element), [value, line]);
  });
  const element = make("article", { "data-device": entry.id },
    make("div", {}, make("h3", {}, linkTo(entry, entry.name)), state.element), why,
    make("div", { class: "measures" }, ...parts.map((part) => part.element)), strip.element);
  return view(element, [state, ...parts, strip], {
    describe() {
      const now = model.devices[place];
      say(why, besides(now), besides(now));
      element.className = `tile ${now.condition.severity}${now.up === null ? " unread" : ""}`;
    },
  });
}

function cell(place, metric) {
  const { id, name, vendor, device } = model.devices[place];
  const value = reading(place, metric, "b", false), line = spark(place, metric, 4), state = make("span", { class: "unseen" });
  const element = linkTo({ id, name }, make("span", { class: "unseen" }, `${vendor} `), make("span", { class: "name" }, device),
    value.element, state, line.element);
  put(element, { "data-device": id, tabindex: -1 }, []);
  let share = -1;
  return view(element, [value, line], {
    describe() {
      const { severity, word } = conditionOf(place), { model: kind, up } = model.devices[place];
      say(state, `, ${word}`);
      element.className = `cell ${severity}${up === null ? " unread" : ""}`;
      element.title = `${name}: ${word}\n${kind ?? ""}`;
    },
    update() {
      const part = Math.max(valueOf(place, metric) ?? 0, 0) / (wholeOf(place, metric) || ceilingOf(place, metric));
      const now = 5 * Math.round(20 * Math.min(part, 1) ** 2); // squared, so that what is idle stays pale
      if (now !== share) element.style.setProperty("--share", `${(share = now)}%`);
    },
  });
}

function row(place) {
  const entry = model.devices[place], state = stateOf(place);
  const readings = Object.keys(SHORT).map((metric, i) => reading(place, metric, "td", i > 0));
  const owner = make("td"), element = make("tr", { "data-device": entry.id },
    make("th", { scope: "row" }, linkTo(entry, entry.name)), make("td", {}, state.element),
    ...readings.map((one) => one.element), owner);
  return view(element, [state, ...readings], { describe: () => say(owner, ownersOf(place), ownersOf(place)) });
}

const ownersOf = (place) => model.devices[place].owners;

// Key, heading, sort key.
const COLUMNS = [
  ["device", "device", (place) => -place],
  ["condition", "state", gravity],
  ...Object.entries(SHORT).map(([metric, name]) => [metric, name, (place) => valueOf(place, metric) ?? -1]),
  ["owner", "owner", ownersOf],
];

// ---- All devices ----

const sum = (values) => values.reduce((a, b) => a + b);
const FIGURES = [
  ["Hottest", "temperature_celsius", (values) => Math.max(...values)],
  ["Power", "power_watts", sum],
  ["Memory used", "memory_used_bytes", sum],
  ["Mean utilization", "utilization_ratio", (values) => sum(values) / values.length],
];

function figures() {
  const element = make("dl", { class: "figures" });
  const figure = (name, value, note = "") =>
    make("div", {}, make("dt", {}, name), make("dd", {}, value, make("small", {}, note && ` ${note}`)));
  const update = () => {
    const whole = [...model.devices.keys()].filter((place) => !model.devices[place].parent);
    const up = whole.filter((place) => model.devices[place].up), all = up.length;
    const shown = FIGURES.map(([name, metric, together]) => {
      const values = up.map((place) => valueOf(place, metric)).filter((value) => value !== null), count = values.length;
      return figure(name, count ? inWords(together(values), metric) : ABSENT, count < all ? `from ${count} of ${all}` : "");
    });
    const [cpu, used, total] = model.host;
    if (cpu != null) shown.push(figure("Host CPU", percent(cpu)));
    if (used != null) shown.push(figure("Host memory", bytes(used), total == null ? "" : `of ${bytes(total)}`));
    adopt(element, [figure("Devices up", `${all}`, all < whole.length ? `of ${whole.length}` : ""), ...shown]);
  };
  return view(element, [], { update });
}

function tools() {
  const search = make("input", { type: "search", placeholder: "Filter", "aria-label": "Filter devices", maxlength: 200 });
  search.addEventListener("input", () => choose({ filter: search.value }));
  const options = metrics().map((metric) => make("option", { value: metric }, nameOf(metric)));
  const select = make("select", { "aria-label": "Metric of the map" }, ...options);
  select.addEventListener("change", () => choose({ metric: select.value }));
  select.hidden = isSmall();
  search.hidden = model.devices.length < 2;
  const counts = make("div", { class: "counts" });
  /** A filter button for each condition. */
  const chips = (severity, filter) => {
    const all = model.devices.filter((one) => one.condition.severity === severity).map((one) => one.condition.word);
    return [...new Set(all)].map((word) => {
      const isChosen = filter === word, count = all.filter((one) => one === word).length;
      const chip = make("button", { type: "button", "aria-pressed": isChosen, "data-chip": word });
      chip.addEventListener("click", () => choose({ filter: isChosen ? "" : word }));
      return mark(chip, { word: `${count} ${word}`, severity });
    });
  };
  return view(make("div", { class: "tools" }, make("h2", {}, "Devices"), search, select, counts), [], {
    describe() {
      const { filter, metric } = chosen();
      if (search.value !== filter) search.value = filter;
      select.value = metric;
      keepingFocus(() => counts.replaceChildren(...SEVERITIES.flatMap((severity) => chips(severity, filter))));
    },
  });
}

function tiles(parts) {
  const few = parts.length <= 4 ? " few" : "";
  return make("div", { class: `tiles${few}` }, ...parts.map((part) => part.element));
}

/** Tab reaches one cell, arrow keys the others. */
function map(parts, metric) {
  const isLong = ["bytes", "hertz"].includes(unitOf(metric));
  const element = make("div", { id: "map", class: isLong ? "map long" : "map", role: "group", "aria-label": `Map of ${nameOf(metric)}` });
  const vendors = new Set(model.devices.map((one) => one.vendor));
  for (const vendor of vendors) {
    if (vendors.size > 1) element.append(make("p", { title: vendor }, vendor));
    element.append(...parts.filter((_, place) => model.devices[place].vendor === vendor).map((part) => part.element));
  }
  element.addEventListener("keydown", moveInMap);
  element.addEventListener("focusin", ({ target }) => {
    element.querySelectorAll("a").forEach((one) => (one.tabIndex = one === target ? 0 : -1));
  });
  return element;
}

const isPlain = (event) => !event.ctrlKey && !event.altKey && !event.metaKey;

function byKey(event, to, go) {
  if (!(event.key in to) || !isPlain(event)) return;
  event.preventDefault();
  go(to[event.key]);
}

function moveInMap(event) {
  const cells = [...event.currentTarget.querySelectorAll("a:not([hidden])")];
  const here = cells.indexOf(document.activeElement), last = cells.length - 1;
  const columns = cells.filter((one) => one.offsetTop === cells[0].offsetTop).length;
  const to = { ArrowLeft: here - 1, ArrowRight: here + 1, ArrowUp: here - columns, ArrowDown: here + columns, Home: 0, End: last };
  byKey(event, to, (place) => cells[place]?.focus());
}

const ROWS_OF_A_TABLE = 16, TABLE_PIXELS = 590;

/** A wide screen shows the table in several parts side by side. */
function table() {
  const rows = model.devices.map((_, place) => row(place)), element = make("div", { class: "tables" });
  let shown = "";
  const order = () => {
    const { sort, filter } = chosen();
    element.classList.toggle("owned", model.devices.some((one) => one.owners));
    const places = sorted([...rows.keys()].filter((place) => isWanted(place, filter)), sort);
    const most = Math.max(1, Math.floor(find("main").clientWidth / TABLE_PIXELS));
    const count = Math.max(1, Math.min(most, Math.ceil(places.length / ROWS_OF_A_TABLE)));
    const wanted = `${sort} ${count} ${places}`;
    if (wanted === shown) return;
    shown = wanted;
    const length = Math.ceil(places.length / count), elements = places.map((place) => rows[place].element);
    keepingFocus(() => element.replaceChildren(...Array.from({ length: count }, (_, i) =>
      tableOf(elements.slice(i * length, (i + 1) * length), sort, i === 0))));
  };
  return view(element, rows, { describe: order, slot: order });
}

function sorted(places, sort) {
  const by = COLUMNS.find(([key]) => key === sort.replace("-", ""))[2], sign = sort.startsWith("-") ? -1 : 1;
  return places.sort((a, b) => sign * ((by(a) > by(b)) - (by(a) < by(b))) || a - b);
}

function tableOf(rows, sort, isFirst) {
  const headings = COLUMNS.map(([key, name]) => {
    if (!isFirst) return make("th", { scope: "col" }, name);
    const isChosen = key === sort.replace("-", ""), isDown = sort.startsWith("-");
    const button = make("button", { type: "button", "data-sort": key }, name);
    button.addEventListener("click", () => choose({ sort: isChosen && isDown ? key : `-${key}` }));
    const order = isDown !== (key === "device") ? "descending" : "ascending";
    return make("th", { scope: "col", ...(isChosen && { "aria-sort": order }) }, button);
  });
  return make("table", { class: "dense" }, make("thead", {}, make("tr", {}, ...headings)), make("tbody", {}, ...rows));
}

/** Keeps the focus if its element is rebuilt. */
function keepingFocus(act) {
  const had = document.activeElement, { device } = had?.closest("[data-device]")?.dataset ?? {};
  const within = had?.closest("table") ? "table " : "";
  act();
  if (!had || had === document.activeElement) return;
  if (had.isConnected) had.focus();
  else if (had.dataset.sort) find(`[data-sort="${had.dataset.sort}"]`)?.focus();
  else if (had.dataset.chip) find(`[data-chip="${CSS.escape(had.dataset.chip)}"]`)?.focus();
  else if (device) focusOn(device, within);
}

function focusOn(device, within = "") {
  const element = find(`${within}[data-device="${CSS.escape(device)}"]`);
  (element?.matches("a") ? element : element?.querySelector("a"))?.focus();
}

function eventLine({ time, id, code, text }) {
  const name = model.devices[model.places.get(id)]?.name ?? id;
  const words = [utc(secondsOf(time)).slice(11), name, code, text].filter(Boolean).join(" · ");
  return make("li", { title: words }, words);
}

function eventList(most, id) {
  const list = make("ul", { class: "events" }), element = make("section", {}, make("h2", {}, "Events"), list);
  const slot = () => {
    const events = past.events.filter((event) => !id || event.id === id).slice(-most).reverse();
    element.hidden = !events.length;
    adopt(list, events.map(eventLine));
  };
  return view(element, [], { slot });
}

/** Puts the children into this order, if they are not. */
function order(element, children) {
  if (children.some((child, i) => element.children[i] !== child)) keepingFocus(() => element.replaceChildren(...children));
}

/** Replaces only the children that changed. */
function adopt(element, lines) {
  lines.forEach((line, i) => {
    const old = element.children[i];
    if (!old) element.append(line);
    else if (old.textContent !== line.textContent) old.replaceWith(line);
  });
  while (element.childElementCount > lines.length) element.lastElementChild.remove();
}

function sourceItem(source) {
  const problems = source.problems.map((one) => make("small", { class: "problem" }, `${one.where}: ${one.text}`));
  const version = make("small", {}, ` ${source.version ?? ""}`);
  return make("li", {}, make("b", {}, source.source), " ", mark(make("span"), source), version, ...problems);
}

const troubleItem = ({ what, why, remedy, severity }) => make("li", { class: severity }, make("strong", {}, what), `: ${why}`,
  make("br"), make("span", { class: "dim" }, ...withCode(remedy)));

function overview() {
  const { metric } = chosen(), list = isSmall() ? [] : [table()], events = eventList(6);
  const parts = model.devices.map((_, place) => (isSmall() ? tile(place) : cell(place, metric)));
  const wrong = make("ul", { class: "troubles" }), sources = make("ul", { class: "sources" });
  const nothing = make("p", { class: "empty" }), isEmpty = !parts.length;
  const advice = "No accelerator found. To find out why: `telemetry doctor`. Try simulated cards: `telemetry top --demo`.";
  if (isEmpty) nothing.append(...withCode(advice));
  const head = figures(), chooser = tools();
  const cards = isSmall() ? tiles(parts) : map(parts, metric);
  const element = make("div", {}, head.element, wrong, chooser.element, nothing, cards, ...list.map((one) => one.element),
    make("div", { class: "more" }, events.element, make("section", {}, make("h2", {}, "Sources"), sources)));
  const describe = () => {
    const { filter } = chosen();
    parts.forEach((part, place) => (part.element.hidden = !isWanted(place, filter)));
    nothing.hidden = !isEmpty && parts.some((part) => !part.element.hidden);
    if (!isEmpty && !nothing.hidden) say(nothing, `Nothing matches “${filter.trim()}”.`);
    if (isSmall()) order(cards, sorted([...parts.keys()], "-condition").map((place) => parts[place].element));
    const [first] = parts.filter((part) => !part.element.hidden);
    if (first && !isSmall() && !cards.querySelector("[tabindex='0']:not([hidden])")) first.element.tabIndex = 0;
    adopt(wrong, model.state.troubles.map(troubleItem));
    adopt(sources, model.state.sources.map(sourceItem));
  };
  return { ...view(element, [head, chooser, ...parts, ...list, events], { describe }), metric };
}

// ---- One device ----

function chart(place, metric) {
  const { id } = model.devices[place], value = reading(place, metric, "b"), at = make("span", { class: "at" });
  const line = spark(place, metric, 1, "gap area top line limit event chosen cross");
  const ticks = [1, 0.5, 0].map((part) => [part, make("span")]), clocks = [1, 0.5, 0].map((part) => [part, make("span")]);
  const element = make("div", { class: "chart" },
    make("div", {}, make("h3", {}, nameOf(metric)), value.element, at),
    make("div", { class: "plot" }, make("div", { class: "ticks" }, ...ticks.map(([, one]) => one)), line.element),
    make("div", { class: "scale" }, ...clocks.map(([, one]) => one)));
  const words = (number) => {
    const { last, highest } = past.of(id, metric), value = past.at(last, number);
    if (Number.isNaN(value)) return past.reason(id, metric, number) || "no reading";
    const said = inWords(value, metric), peak = inWords(past.at(highest, number), metric);
    return said === peak ? said : `${said} (highest ${peak})`;
  };
  return {
    ...view(element, [value, line], {
      slot() {
        for (const [part, tick] of ticks) say(tick, inWords(part * ceilingOf(place, metric), metric));
      },
    }),
    zoom(first, count) {
      line.zoom(first, count);
      for (const [part, clock] of clocks) say(clock, utc((first + (1 - part) * count) * past.slotSeconds).slice(11, count < 120 ? 19 : 16));
    },
    choose(from, to) {
      const left = from - past.first;
      line.fill({ chosen: from === null ? "" : `M${left} 0H${to - past.first}V${HEIGHT}H${left}Z` });
    },
    words: (number) => `${nameOf(metric)} ${words(number)}`,
    point(number) {
      line.fill({ cross: number === null ? "" : `M${number - past.first + 0.5} 0V${HEIGHT}` });
      const said = number === null ? "" : words(number);
      say(at, said, said);
    },
  };
}

const MIN_SLOTS = 6, ZOOMS = [["5 min", 300], ["15 min", 900], ["All", Infinity]];

/** The slots that charts show, the newest or those from `begin` on, with buttons. */
function zooming(changed) {
  const range = { begin: null, count: Infinity };
  const choose = (begin, count) => {
    Object.assign(range, { begin, count });
    changed();
  };
  const buttons = ZOOMS.map(([name, seconds]) => {
    const button = make("button", { type: "button" }, name), count = seconds / past.slotSeconds;
    button.addEventListener("click", () => choose(null, count));
    return { button, count };
  });
  const shown = () => {
    const count = Math.min(range.count, past.slots);
    if (range.begin < past.first) range.begin = null;
    for (const { button, count: other } of buttons) button.setAttribute("aria-pressed", range.begin === null && range.count === other);
    return { first: range.begin ?? past.newest - count, count };
  };
  const element = make("div", { class: "tools zoom", role: "group", "aria-label": "Time range" },
    ...buttons.map(({ button }) => button), make("span", { class: "dim" }, "Zoom: drag in a chart, or + and -."));
  return { element, choose, shown };
}

/** All charts show the same range and the moment that pointer or keys choose. */
function charts(place, output, strip) {
  const { id } = model.devices[place];
  const all = metrics().filter((metric) => metric !== "throttled").map((metric) => chart(place, metric));
  const element = make("div", { class: "charts", role: "slider", tabindex: 0, "aria-label": "Moment of the last half hour" },
    ...all.map((one) => one.element));
  let moment = null, drag = null;
  const zoom = zooming(() => point(moment));
  const point = (number) => {
    const { first, count } = zoom.shown();
    [...all, strip].forEach((drawn) => drawn.zoom(first, count));
    moment = number === null ? null : Math.min(Math.max(number, first), first + count - 1);
    all.forEach((one) => one.point(moment));
    const throttled = moment !== null && past.at(past.of(id, "throttled").highest, moment) > 0 ? ["throttled"] : [];
    const words = moment === null ? [] : [utc(moment * past.slotSeconds).slice(11), ...throttled, ...all.map((one) => one.words(moment))];
    say(output, words.join(" · "));
    const values = { min: first - past.newest, max: first + count - 1 - past.newest, now: (moment ?? past.newest - 1) - past.newest,
      text: words.join(", ") || "now" };
    for (const name in values) element.setAttribute(`aria-value${name}`, values[name]);
  };
  const under = ({ clientX, target }) => {
    const box = (drag?.svg ?? target.closest(".chart")?.querySelector("svg"))?.getBoundingClientRect(), { first, count } = zoom.shown();
    return box && first + Math.floor((count * Math.min(Math.max(clientX - box.left, 0), box.width - 1)) / box.width);
  };
  const ended = () => {
    drag = null;
    all.forEach((one) => one.choose(null));
  };
  element.addEventListener("pointerdown", (event) => {
    const from = under(event);
    if (from !== undefined && !event.button) drag = { from, svg: event.target.closest(".chart").querySelector("svg") };
  });
  element.addEventListener("pointermove", (event) => {
    const number = under(event);
    if (number === undefined) return;
    point(number);
    if (drag) all.forEach((one) => one.choose(Math.min(drag.from, number), Math.max(drag.from, number) + 1));
  });
  element.addEventListener("pointerup", (event) => {
    if (!drag) return;
    const to = under(event), count = Math.abs(to - drag.from) + 1, first = Math.min(to, drag.from);
    ended();
    if (count >= MIN_SLOTS) zoom.choose(first, count);
  });
  element.addEventListener("pointercancel", ended);
  element.addEventListener("pointerleave", () => {
    ended();
    point(null);
  });
  const zoomBy = (factor) => {
    const { first, count } = zoom.shown(), next = Math.max(MIN_SLOTS, Math.min(past.slots, Math.round(count * factor)));
    const begin = Math.max(past.first, Math.min((moment ?? first + count - 1) - Math.round(next / 2), past.newest - next));
    next === past.slots ? zoom.choose(null, Infinity) : zoom.choose(begin, next);
  };
  element.addEventListener("keydown", (event) => {
    const from = moment ?? past.newest, step = Math.round(60 / past.slotSeconds), { first, count } = zoom.shown();
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, ArrowDown: from - 1, ArrowUp: from + 1, PageDown: from - step,
      PageUp: from + step, Home: first, End: first + count };
    byKey(event, to, point);
    byKey(event, { "+": 0.5, "-": 2 }, zoomBy);
  });
  return { ...view(element, all, { slot: () => point(moment) }), tools: zoom.element };
}

const OF_OWNERS = /^(owner|process) /;
const GROUPS = [
  ["Heat", /^(temperature|fan|throttled)/], ["Power", /^(power|energy)/],
  ["Memory and its errors", /^(memory|ecc|row|remapped|retired)/], ["Work", /^(util|busy|clock|engine|graphics|sm |tensor|pipe|video)/],
  ["Links", /^(link|pcie)/], ["Health and events", /^(event|health|recovery|suspended)/], ["Other", /^/],
];

const RATES = { bytes: (value) => `${decimal(value)}B/s`, joules: BY_UNIT.watts, seconds: (share) => percent(Math.min(share, 1)) };
const IS_ZERO = /^0( (%|B|B\/s|W|s|J))?$/, SHOWN_ZEROS = /^(utilization|performance state|processes|ecc enabled|link up)/;

function decimal(value) {
  const prefixes = ["", "k", "M", "G", "T"];
  while (value >= 999.5 && prefixes.length > 1) {
    value /= 1000;
    prefixes.shift();
  }
  return `${digits(value)} ${prefixes[0]}`;
}

/** Shows counters as rates; counts without a unit keep their total. */
function counting() {
  const seen = new Map();
  return (line) => {
    const { total, taken, unit } = line.dataset, name = line.firstChild.textContent, words = line.querySelector("dd").firstChild;
    if (total === undefined) return;
    const now = { value: Number(total), time: Number(taken) };
    const { first = now, last = now, rate } = seen.get(name) ?? {}, grown = now.value - first.value;
    const isNew = now.time > last.time && now.value >= last.value, hours = (now.time - first.time) / 3600;
    const next = isNew ? (now.value - last.value) / (now.time - last.time) : now.value < last.value ? undefined : rate;
    seen.set(name, { first: now.value < first.value ? now : first, last: isNew || now.value < last.value ? now : last, rate: next });
    if (unit && next !== undefined) words.data = `${RATES[unit](next)} `;
    else if (!unit && grown > 0 && hours > 1 / 60) words.data += `(${digits(Math.round(grown / hours))} per hour) `;
  };
}

/** All readings in groups, with a field that searches them; those of 0 are named in a line. */
function readingsOf() {
  const count = counting();
  const search = make("input", { type: "search", placeholder: "Search readings", "aria-label": "Search readings" });
  const nothing = make("p", { class: "empty" });
  const groups = GROUPS.map(([name]) => {
    const list = make("dl", { class: "list" }), zeros = make("p", { class: "dim" });
    return { list, zeros, section: make("section", {}, make("h4", {}, name), list, zeros) };
  });
  const nameIn = (line) => line.firstChild.textContent;
  const valueIn = (line) => line.querySelector("dd").firstChild.data.trim();
  // Facts have no source.
  const isZero = (line) => IS_ZERO.test(valueIn(line)) && !SHOWN_ZEROS.test(nameIn(line)) && line.querySelector("small").textContent;
  const isUp = (line) => /^link up /.test(nameIn(line)) && valueIn(line) === "1";
  const sift = () => {
    const wanted = search.value.trim().toLowerCase();
    for (const { list, zeros, section } of groups) {
      const lines = [...list.children], folded = wanted ? [] : lines.filter(isZero), up = wanted ? [] : lines.filter(isUp);
      for (const line of lines) line.hidden = [...folded, ...up].includes(line) || !line.textContent.toLowerCase().includes(wanted);
      const words = [up.length && `${up.length} links are up`, folded.length && `0: ${folded.map(nameIn).join(", ")}`].filter(Boolean);
      say(zeros, words.join(" · "));
      section.hidden = !words.length && lines.every((line) => line.hidden);
    }
    nothing.hidden = !wanted || groups.some(({ section }) => !section.hidden);
    say(nothing, `Nothing matches “${search.value.trim()}”.`);
  };
  search.addEventListener("input", sift);
  const fill = (lines) => {
    lines.forEach(count);
    const groupOf = (line) => GROUPS.findIndex(([, pattern]) => pattern.test(line.textContent.trim().toLowerCase()));
    groups.forEach(({ list }, i) => adopt(list, lines.filter((line) => groupOf(line) === i)));
    sift();
  };
  const element = make("div", { class: "readings" }, make("div", { class: "tools" }, make("h3", {}, "Readings"), search),
    nothing, ...groups.map(({ section }) => section));
  return { element, fill };
}

function card(place) {
  const { id } = model.devices[place];
  const heading = make("h2", { tabindex: -1 }), state = stateOf(place), kind = make("span", { class: "model" });
  const findings = make("ul", { class: "troubles" }), readings = readingsOf();
  const output = make("output", { "aria-live": "off" });
  const strip = marks(place), drawn = charts(place, output, strip), events = eventList(256, id);
  const owners = make("dl", { class: "list" });
  const held = make("section", { class: "readings" }, make("h4", {}, "Owners and processes"), owners);
  held.hidden = true;
  const back = make("a", { href: addressOf({ card: "" }), "data-back": "" }, "← All devices");
  const element = make("section", { id: "card", "aria-label": "One device" },
    make("div", {}, back, heading, state.element, kind), findings, held, drawn.tools, drawn.element, strip.element, output, events.element,
    readings.element);
  const ask = async (since) => {
    askForPast({ device: id, ...since });
    const known = (await pageAt(`?${new URLSearchParams({ device: id })}`))?.querySelector(".list");
    if (!known) return;
    const isOwner = (line) => OF_OWNERS.test(line.textContent.trim()), lines = [...known.children];
    adopt(owners, lines.filter(isOwner));
    held.hidden = !owners.childElementCount;
    readings.fill(lines.filter((line) => !isOwner(line)));
  };
  const own = {
    describe() {
      const { name, model: model_, findings: all } = model.devices[place];
      say(heading, name, name);
      say(kind, model_ ?? "", model_ ?? "");
      const explained = all.filter((one) => one.meaning);
      adopt(findings, explained.map(({ words, meaning, ...rest }) => troubleItem({ what: words, why: meaning, ...rest })));
    },
  };
  const opened = () => {
    heading.focus({ preventScroll: true });
    scrollTo(0, 0);
    ask();
  };
  return { ...view(element, [state, drawn, strip, events], own), id, opened, ask };
}

// ---- What is shown ----

let all = null, one = null, isLive = false;

function show() {
  if (!isLive) return;
  const { card: id, metric } = chosen(), main = find("main"), left = one?.id;
  if (!all || all.metric !== metric) {
    if (all) askForPast({ metric });
    all = overview();
  }
  if (left !== (id || undefined)) one = id ? card(model.places.get(id)) : null;
  const { element } = one ?? all;
  if (!element.isConnected) main.replaceChildren(element);
  main.classList.remove("plain");
  refresh();
  if (one && one.id !== left) one.opened();
  else if (!one && left) focusOn(left);
}

function refresh() {
  if (!isLive || document.hidden) return;
  if (model.time) say(find(".time"), utc(model.time));
  describe();
  (one ?? all).update();
  (one ?? all).slot();
}

function describe() {
  const { hostname, inventory, notes } = model.state;
  model.isChanged = false;
  say(find("h1"), hostname ?? "", hostname ?? "");
  say(find(".inventory"), inventory, inventory);
  const card = given().get("card"), isUnknown = card && !model.places.has(card);
  const unknown = isUnknown ? [`No device here has the id “${card}”. These are all devices.`] : [];
  adopt(find("#notes"), [...unknown, ...notes].map((note) => make("p", { class: "note" }, note)));
  const grave = model.devices.filter((device) => ["bad", "warning"].includes(device.condition.severity)).length;
  document.title = `${grave ? `▲ ${grave} · ` : ""}${hostname ?? ""} · device telemetry`;
  (one ?? all).describe();
}

function takeState(state) {
  if (state.version !== page.version && sessionStorage.getItem("version") !== state.version) {
    sessionStorage.setItem("version", state.version);
    return location.reload();
  }
  const ids = (devices) => devices.map((device) => device.id).join("\n");
  const isSame = isLive && ids(state.devices) === ids(model.devices);
  Object.assign(model, { state, devices: state.devices, places: new Map(state.devices.map((device, i) => [device.id, i])) });
  if (!isSame) model.values = [];
  isLive = true;
  bannerSays("");
  if (isSame) return refresh();
  keepingFocus(() => {
    all = one = null;
    show();
  });
  askForPast(isSmall() ? {} : { metric: chosen().metric });
}

function takeDevice(entry) {
  const place = model.places.get(entry.id), before = model.devices[place];
  if (!before) return;
  model.devices[place] = entry;
  model.isChanged = true;
  if (before.condition.word !== entry.condition.word) say(find("#news"), `${entry.name}: ${entry.condition.word}`);
  if (`${before.open_events}` !== `${entry.open_events}`) setTimeout(askForPast, 1000, { device: entry.id, metric: "throttled" });
}

function takeReadings({ time, valid_seconds, host, values }) {
  const { scales, columns } = model.state;
  model.values = values.map((row) => row && row.map((value, i) => (value === null ? null : value * scales[i])));
  Object.assign(model, { time, host, until: performance.now() + (valid_seconds ?? Infinity) * 1000 });
  if (past.numberAt(time) < past.newest - 1) past = newPast(); // the clock was set back
  const hasEnded = past.add(time, model.devices, columns, model.values);
  document.body.classList.remove("stale");
  if (document.hidden) return;
  say(find(".time"), utc(time));
  if (model.isChanged) describe();
  (one ?? all).update();
  if (!hasEnded) return;
  (one ?? all).slot();
  one?.ask({ since: time - 60 });
}

// ---- The daemon ----

const SILENCE = 2300, PATIENCE = 2, PLAIN = 5000, MAX_PAUSE = 15000;
const link = { source: null, lastId: "", heard: 0, pause: 1000, timer: 0, isChecking: false };

/** Returns null if the daemon does not answer. */
const got = (path, seconds = 30) =>
  fetch(`./${path}`, { cache: "no-store", signal: AbortSignal.timeout(1000 * seconds) })
    .then((answer) => (answer.ok ? answer.text() : null))
    .catch(() => null);

const isThere = () => got("healthz", PATIENCE);

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

const TAKES = {
  state: takeState,
  device: takeDevice,
  troubles: ({ troubles }) => Object.assign(model.state, { troubles }) && Object.assign(model, { isChanged: true }),
  readings: takeReadings,
  history: ({ id, series, ...rest }) => past.take({ ...rest, devices: series ? [{ id, series }] : [] }),
};

function connect() {
  disconnect();
  const source = new EventSource(`./api/v1/events?${new URLSearchParams({ last_event_id: link.lastId })}`);
  Object.assign(link, { source, heard: performance.now() });
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
  clearTimeout(link.timer);
  link.source?.close();
  link.source = null;
}

/** Calls `act` after a growing, random pause, so that pages do not reconnect all at once. */
function later(act) {
  clearTimeout(link.timer);
  link.timer = setTimeout(act, link.pause * (0.75 + Math.random() / 2));
  link.pause = Math.min(link.pause * 2, MAX_PAUSE);
}

function bannerSays(text) {
  find("#banner").hidden = !text;
  if (find("#banner").dataset.text !== text) find("#banner").replaceChildren(...withCode(text));
  find("#banner").dataset.text = text;
  document.body.classList.toggle("live", !text);
}

function gone() {
  disconnect();
  const age = model.time ? `, ${agesInWords(Math.max(0, Date.now() / 1000 - model.time))} old` : "";
  bannerSays(`The daemon does not answer. These are the last values, of ${find(".time").textContent}${age}.
    On the node, see \`systemctl status telemetry\`, and whether the network reaches it.`);
  later(comeBack);
}

const comeBack = async () => ((await isThere()) ? connect() : gone());

/** All streams are in use: load the plain page again. */
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
  past = newPast();
  bannerSays(`Too many pages are open for live values: this one shows new ones every ${PLAIN / 1000} s.`);
}

async function watch() {
  const now = performance.now(), { source } = link;
  document.body.classList.toggle("stale", now > model.until);
  if (link.isChecking || !source || now - link.heard < SILENCE) return;
  link.isChecking = true;
  const isAnswering = await isThere();
  link.isChecking = false;
  if (source !== link.source) return;
  link.heard = performance.now();
  if (!isAnswering) gone();
  else if (now > model.until + MAX_PAUSE) connect();
}

// ---- The beginning ----

addEventListener("popstate", show);
addEventListener("resize", () => isLive && all.describe());
document.addEventListener("visibilitychange", refresh);
document.addEventListener("click", (event) => {
  const anchor = event.target.closest("a"), device = anchor?.closest("[data-device]")?.dataset.device;
  const isSkip = anchor?.matches(".skip"), isOurs = isLive && (device || anchor?.matches("[data-back]"));
  if (!(isSkip || isOurs) || event.button || event.shiftKey || !isPlain(event)) return;
  event.preventDefault();
  if (isSkip) find("main").focus();
  else choose({ card: device ?? "" });
});
document.addEventListener("keydown", (event) => {
  if (!isPlain(event) || !isLive) return;
  if (event.key === "Escape" && one) choose({ card: "" });
  const search = find("input[type=search]");
  if (search && document.activeElement !== search) byKey(event, { "/": search }, () => search.focus());
});
setInterval(watch, 250);
connect();
