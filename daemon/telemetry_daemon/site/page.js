// The live page. Texts are inserted as text, never as markup.
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

  seriesOf(id, metric) {
    const key = `${metric} ${id}`, noNumbers = () => new Float32Array(this.slots + 1).fill(NaN);
    if (!this.series.has(key)) this.series.set(key, { metric, last: noNumbers(), highest: noNumbers(), gaps: [] });
    return this.series.get(key);
  }

  slotAt(time) {
    return Math.floor(time / this.slotSeconds);
  }

  get first() {
    return this.newest - this.slots;
  }

  at(numbers, slot) {
    return numbers[slot - this.first] ?? NaN;
  }

  /** Returns whether this is a new slot, so that the previous slot has ended. */
  advance(slot) {
    const count = slot - this.newest;
    if (count <= 0) return false;
    for (const { last, highest } of this.series.values())
      for (const numbers of [last, highest]) numbers.copyWithin(0, count).fill(NaN, -count);
    Object.assign(this, { newest: slot, peaks: {} });
    return true;
  }

  /** Adds readings; returns whether a slot has ended. */
  add(time, devices, columns, rows) {
    const hasEnded = this.advance(this.slotAt(time)), newest = this.slots;
    rows.forEach((row, i) =>
      columns.forEach((metric, column) => {
        const { last, highest } = this.seriesOf(devices[i].id, metric), value = row?.[column] ?? NaN;
        last[newest] = value;
        if (!(highest[newest] >= value)) highest[newest] = value;
      }),
    );
    return hasEnded;
  }

  /** Adds the history in a document or in an event. */
  merge({ start, slots, devices, events = [] }) {
    const begin = this.slotAt(secondsOf(start) + this.slotSeconds / 2);
    this.advance(begin + slots);
    for (const { id, series } of devices)
      for (const [metric, { last, highest = last, gaps = [] }] of Object.entries(series)) {
        const target = this.seriesOf(id, metric);
        // Typed arrays ignore negative indices: slots before the half hour.
        last.forEach((value, i) => (target.last[begin + i - this.first] = value ?? NaN));
        highest.forEach((value, i) => (target.highest[begin + i - this.first] = value ?? NaN));
        const earlier = target.gaps.filter((gap) => gap.first < begin);
        target.gaps = [...earlier, ...gaps.map((gap) => ({ ...gap, first: gap.first + begin }))];
      }
    const keyOf = (event) => `${event.time} ${event.id} ${event.code}`, keys = new Set(this.events.map(keyOf));
    this.events.push(...events.filter((event) => !keys.has(keyOf(event))));
    this.events.sort((a, b) => secondsOf(a.time) - secondsOf(b.time));
  }

  reason(id, metric, slot) {
    const gap = this.seriesOf(id, metric).gaps.find(({ first, slots }) => slot >= first && slot < first + slots);
    return gap?.reason.replaceAll("_", " ") ?? "";
  }

  peak(name) {
    const peaks = () => [...this.series.values()].map(({ metric, highest }) => (metric === name ? greatest(highest) : 0));
    return (this.peaks[name] ??= greatest(peaks()));
  }
}

// ---- The daemon's data, and the user's choices ----

const page = document.documentElement.dataset, pageClasses = document.body.classList;
const newPast = () => new Past(Number(page.slotSeconds), Number(page.slots));
let past = newPast(), devices = [], indexById = new Map();
const live = { state: null, values: [], time: 0, host: [], until: Infinity, isChanged: false };
const MAX_TILES = 16, AT_CAP = 0.97, CAP = "power_cap_watts";
const isSmall = () => devices.length <= MAX_TILES;
const metrics = () => live.state.columns.filter((metric) => metric !== CAP);

const valueOf = (index, metric) => live.values[index]?.[live.state.columns.indexOf(metric)] ?? null;

function limitOf(index, metric) {
  if (metric === "power_watts") return valueOf(index, CAP);
  const keys = { temperature_celsius: "limit_celsius", memory_used_bytes: "memory_total_bytes" };
  return devices[index][keys[metric]] ?? null;
}

/** The number at the upper edge of a drawing. */
function ceilingOf(index, metric) {
  if (["ratio", "throttled"].includes(unitOf(metric))) return 1;
  const limit = limitOf(index, metric);
  return (limit ? Math.max(limit, greatest(past.seriesOf(devices[index].id, metric).highest)) : past.peak(metric)) || 1;
}

const SEVERITIES = ["bad", "warning", "quiet", "good"], NEED_NOTHING = 2;
const ageInWords = (seconds) => (seconds < 120 ? `${Math.round(seconds)} s` : seconds < 7200 ? `${Math.round(seconds / 60)} min`
  : `${Math.round(seconds / 3600)} h`);

/** The condition in words, for an unread device with the age of its last reading. */
function conditionOf(index) {
  const { condition, up, last_read: lastRead } = devices[index];
  if (up !== null || !lastRead) return condition;
  return { ...condition, word: `${condition.word}, last read ${ageInWords(Math.max(0, live.time - secondsOf(lastRead)))} ago` };
}

const urgency = (index) => SEVERITIES.length - Math.min(NEED_NOTHING, SEVERITIES.indexOf(devices[index].condition.severity));

const fromHash = () => new URLSearchParams(location.hash.slice(1));

function choices() {
  const { card, filter = "", metric, sort = "" } = Object.fromEntries(fromHash());
  return {
    card: indexById.has(card) ? card : "",
    filter,
    metric: metrics().includes(metric) ? metric : metrics()[0],
    sort: COLUMNS.some(([key]) => key === sort.replace("-", "")) ? sort : "-condition",
  };
}

function addressOf(changes) {
  const parameters = fromHash();
  for (const [name, value] of Object.entries(changes)) value ? parameters.set(name, value) : parameters.delete(name);
  return `${parameters}` ? `#${parameters}` : location.href.split("#")[0];
}

function choose(changes) {
  history["card" in changes ? "pushState" : "replaceState"](null, "", addressOf(changes));
  show();
}

function matches(index, filter) {
  const { id, name, model, condition, findings, owners } = devices[index];
  const conditions = findings.flatMap((finding) => [finding.word, finding.words]);
  const words = [name, id, model, condition.severity, owners, ...conditions].join("\n").toLowerCase();
  return words.includes(filter.trim().toLowerCase());
}

// ---- Elements ----

function extend(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
const make = (tag, attributes = {}, ...children) => extend(document.createElement(tag), attributes, children);
const makeSvg = (tag, attributes, ...children) =>
  extend(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const find = (selector) => document.querySelector(selector);
const on = (target, event, act) => target.addEventListener(event, act);

/** Changes only what differs. The title shows a text that may be cut off. */
function setText(element, text, title = null) {
  if (element.textContent !== text) element.textContent = text;
  if (title !== null && element.title !== title) element.title = title;
}

const elementsOf = (views) => views.map(({ element }) => element);

const withCode = (text) => text.split("`").map((part, i) => (i % 2 ? make("code", {}, part) : part));

const linkTo = ({ id, name, model }, ...children) =>
  make("a", { href: `#${new URLSearchParams({ card: id })}`, title: `${name}\n${model ?? ""}` }, ...children);

function setState(element, { word, severity }) {
  setText(element, word, word);
  element.className = `state ${severity}`;
  return element;
}

/** An element whose parts `describe` devices, `update` readings, and `draw` ended slots. */
function view(element, parts, handlers = {}) {
  const callAll = (name) => () => {
    handlers[name]?.();
    parts.forEach((part) => part[name]());
  };
  return { element, describe: callAll("describe"), update: callAll("update"), draw: callAll("draw") };
}

function stateOf(index) {
  const element = make("span");
  const describe = () => setState(element, conditionOf(index));
  return view(element, [], { describe, update: () => devices[index].up === null && describe() });
}

function reading(index, metric, tag, hasLimit = true) {
  const number = document.createTextNode(""), limitText = make("small"), element = make(tag, { "data-metric": metric }, number);
  if (hasLimit) element.append(limitText);
  let shown;
  const update = () => {
    const value = valueOf(index, metric), limit = limitOf(index, metric);
    const reason = past.reason(devices[index].id, metric, past.newest - 1) || "no reading";
    const content = `${value} ${limit} ${value ?? reason}`;
    if (content === shown) return;
    shown = content;
    const absent = devices[index].shares_host_memory && metric === "memory_used_bytes" ? "shared with host" : ABSENT;
    number.data = value === null ? absent : inWords(value, metric);
    limitText.textContent = limit === null ? "" : ` of ${inWords(limit, metric)}`;
    element.title = value === null ? reason : "";
  };
  return view(element, [], { update });
}

// ---- Drawings ----

const HEIGHT = 1000, MARGIN = 60;

/** A line and the area below it, both interrupted at gaps. */
function paths(numbers, ceiling, step = 1) {
  let line = "", area = "", points = "", start = 0;
  const closeArea = (x) => {
    if (points) line += `M${points}`;
    if (points) area += `M${start} ${HEIGHT}L${points}L${x} ${HEIGHT}Z`;
    points = "";
  };
  for (let x = 0; x < past.slots; x += step) {
    let value = NaN;
    for (let i = 0; i < step; i++) {
      const number = past.at(numbers, past.first + x + i);
      if (!(value >= number) && number === number) value = number;
    }
    if (value === value) {
      const y = Math.round(HEIGHT * (1 - Math.max(value, 0) / ceiling));
      if (!points) start = x;
      points += `${points && " "}${x} ${y} ${x + step / 2} ${y}`;
    } else closeArea(x - step / 2);
  }
  closeArea(past.slots - step / 2);
  return { line, area };
}

function slotPaths(isIncluded, path) {
  let result = "";
  for (let x = 0; x < past.slots; x++) if (isIncluded(past.first + x)) result += path(x);
  return result;
}

function drawing(classes, top, height) {
  const lines = Object.fromEntries(classes.split(" ").map((name) => [name, makeSvg("path", { class: name })]));
  const box = { viewBox: `0 ${top} ${past.slots} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" };
  const setPaths = (shapes) => {
    for (const name in shapes) lines[name]?.setAttribute("d", shapes[name]);
  };
  const element = makeSvg("svg", { class: "spark", ...box }, ...Object.values(lines));
  const zoom = (first, count) => element.setAttribute("viewBox", `${first - past.first} ${top} ${count} ${height}`);
  return { element, setPaths, zoom };
}

function sparkline(index, metric, step = 1, classes = "area line limit") {
  const { element, setPaths, zoom } = drawing(classes, -MARGIN, HEIGHT + MARGIN);
  const draw = () => {
    const { last, highest } = past.seriesOf(devices[index].id, metric);
    const ceiling = ceilingOf(index, metric), limit = limitOf(index, metric);
    setPaths({ ...paths(last, ceiling, step), limit: limit ? `M0 ${Math.round(HEIGHT * (1 - limit / ceiling))}H${past.slots}` : "" });
    if (!classes.includes("gap")) return;
    const gap = slotPaths((slot) => Number.isNaN(past.at(last, slot)), (x) => `M${x} 0H${x + 1}V${HEIGHT}H${x}Z`);
    const withEvents = eventSlots(devices[index].id);
    const event = slotPaths((slot) => withEvents.has(slot), (x) => `M${x + 0.5} 0V${HEIGHT}`);
    setPaths({ gap, event, top: paths(highest, ceiling).line });
  };
  return { ...view(element, [], { draw }), setPaths, zoom };
}

const eventSlots = (id) =>
  new Set(past.events.filter((event) => event.id === id).map((event) => past.slotAt(secondsOf(event.time))));

/** A strip that shows when a device was at its power cap, was otherwise throttled, or had events. */
function eventStrip(index) {
  const { element, setPaths, zoom } = drawing("capped throttled events", 0, 8), { id } = devices[index];
  element.setAttribute("class", "marks");
  const draw = () => {
    const { highest } = past.seriesOf(id, "throttled"), power = past.seriesOf(id, "power_watts").highest, cap = past.seriesOf(id, CAP).last;
    const withEvents = eventSlots(id);
    setPaths({
      capped: slotPaths((slot) => past.at(power, slot) >= AT_CAP * past.at(cap, slot), (x) => `M${x} 2H${x + 1}`),
      throttled: slotPaths((slot) => past.at(highest, slot) > 0, (x) => `M${x} 2H${x + 1}`),
      events: slotPaths((slot) => withEvents.has(slot), (x) => `M${x} 0V8`),
    });
  };
  return { ...view(element, [], { draw }), zoom };
}

// ---- A device as tile, cell and row ----

const SHORT = { temperature_celsius: "temp", power_watts: "power", memory_used_bytes: "memory", utilization_ratio: "util" };

function detailsOf({ model, findings, owners }) {
  const isMixed = devices.some((device) => device.model !== model);
  const [{ word, words }, ...others] = findings;
  return [owners, words !== word && words, ...others.map((other) => other.words), isMixed && model].filter(Boolean).join(" · ");
}

function tile(index) {
  const entry = devices[index], state = stateOf(index), strip = eventStrip(index), details = make("p", { class: "why" });
  const parts = Object.keys(SHORT).map((metric) => {
    const value = reading(index, metric, "b"), line = sparkline(index, metric);
    return view(make("div", {}, make("span", { class: "label" }, nameOf(metric)), value.element, line.element), [value, line]);
  });
  const element = make("article", { "data-device": entry.id },
    make("div", {}, make("h3", {}, linkTo(entry, entry.name)), state.element), details,
    make("div", { class: "measures" }, ...elementsOf(parts)), strip.element);
  return view(element, [state, ...parts, strip], {
    describe() {
      const device = devices[index];
      setText(details, detailsOf(device), detailsOf(device));
      element.className = `tile ${device.condition.severity}${device.up === null ? " unread" : ""}`;
    },
  });
}

function cell(index, metric) {
  const { id, name, vendor, device } = devices[index];
  const value = reading(index, metric, "b", false), line = sparkline(index, metric, 4), state = make("span", { class: "unseen" });
  const element = linkTo({ id, name }, make("span", { class: "unseen" }, `${vendor} `), make("span", { class: "name" }, device),
    value.element, state, line.element);
  extend(element, { "data-device": id, tabindex: -1 }, []);
  let shown = -1;
  return view(element, [value, line], {
    describe() {
      const { severity, word } = conditionOf(index), { model, up } = devices[index];
      setText(state, `, ${word}`);
      element.className = `cell ${severity}${up === null ? " unread" : ""}`;
      element.title = `${name}: ${word}\n${model ?? ""}`;
    },
    update() {
      const ratio = Math.max(valueOf(index, metric) ?? 0, 0) / (limitOf(index, metric) || ceilingOf(index, metric));
      const rounded = 5 * Math.round(20 * Math.min(ratio, 1) ** 2); // squared, so that idle devices stay pale
      if (rounded !== shown) element.style.setProperty("--share", `${(shown = rounded)}%`);
    },
  });
}

function row(index) {
  const entry = devices[index], state = stateOf(index);
  const readings = Object.keys(SHORT).map((metric, i) => reading(index, metric, "td", i > 0));
  const owner = make("td"), element = make("tr", { "data-device": entry.id },
    make("th", { scope: "row" }, linkTo(entry, entry.name)), make("td", {}, state.element),
    ...elementsOf(readings), owner);
  return view(element, [state, ...readings], { describe: () => setText(owner, ownersOf(index), ownersOf(index)) });
}

const ownersOf = (index) => devices[index].owners;

// Key, heading, sort key.
const COLUMNS = [
  ["device", "device", (index) => -index],
  ["condition", "state", urgency],
  ...Object.entries(SHORT).map(([metric, name]) => [metric, name, (index) => valueOf(index, metric) ?? -1]),
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
    const cards = [...devices.keys()].filter((index) => !devices[index].parent);
    const up = cards.filter((index) => devices[index].up), all = up.length;
    const items = FIGURES.map(([name, metric, combine]) => {
      const values = up.map((index) => valueOf(index, metric)).filter((value) => value !== null), count = values.length;
      return figure(name, count ? inWords(combine(values), metric) : ABSENT, count < all ? `from ${count} of ${all}` : "");
    });
    const [cpu, used, total] = live.host;
    if (cpu != null) items.push(figure("Host CPU", percent(cpu)));
    if (used != null) items.push(figure("Host memory", bytes(used), total == null ? "" : `of ${bytes(total)}`));
    setChildren(element, [figure("Devices up", `${all}`, all < cards.length ? `of ${cards.length}` : ""), ...items]);
  };
  return view(element, [], { update });
}

function toolbar() {
  const search = make("input", { type: "search", placeholder: "Filter", "aria-label": "Filter devices", maxlength: 200 });
  on(search, "input", () => choose({ filter: search.value }));
  const options = metrics().map((metric) => make("option", { value: metric }, nameOf(metric)));
  const select = make("select", { "aria-label": "Metric of the map" }, ...options);
  on(select, "change", () => choose({ metric: select.value }));
  select.hidden = isSmall();
  search.hidden = devices.length < 2;
  const counts = make("div", { class: "counts" });
  /** A filter button for each condition. */
  const chips = (severity, filter) => {
    const words = devices.filter((device) => device.condition.severity === severity).map((device) => device.condition.word);
    return [...new Set(words)].map((word) => {
      const isChosen = filter === word, count = words.filter((other) => other === word).length;
      const chip = make("button", { type: "button", "aria-pressed": isChosen, "data-chip": word });
      on(chip, "click", () => choose({ filter: isChosen ? "" : word }));
      return setState(chip, { word: `${count} ${word}`, severity });
    });
  };
  return view(make("div", { class: "tools" }, make("h2", {}, "Devices"), search, select, counts), [], {
    describe() {
      const { filter, metric } = choices();
      if (search.value !== filter) search.value = filter;
      select.value = metric;
      keepingFocus(() => counts.replaceChildren(...SEVERITIES.flatMap((severity) => chips(severity, filter))));
    },
  });
}

const tiles = (parts) => make("div", { class: parts.length > 4 ? "tiles" : "tiles few" }, ...elementsOf(parts));

/** The Tab key reaches one cell, the arrow keys the others. */
function deviceMap(parts, metric) {
  const isLong = ["bytes", "hertz"].includes(unitOf(metric));
  const element = make("div", { id: "map", class: isLong ? "map long" : "map", role: "group", "aria-label": `Map of ${nameOf(metric)}` });
  const vendors = new Set(devices.map((device) => device.vendor));
  for (const vendor of vendors) {
    if (vendors.size > 1) element.append(make("p", { title: vendor }, vendor));
    element.append(...parts.filter((_, index) => devices[index].vendor === vendor).map((part) => part.element));
  }
  on(element, "keydown", moveInMap);
  on(element, "focusin", ({ target }) => {
    element.querySelectorAll("a").forEach((link) => (link.tabIndex = link === target ? 0 : -1));
  });
  return element;
}

const isPlain = (event) => !event.ctrlKey && !event.altKey && !event.metaKey;

function onKey(event, targets, act) {
  if (!(event.key in targets) || !isPlain(event)) return;
  event.preventDefault();
  act(targets[event.key]);
}

function moveInMap(event) {
  const cells = [...event.currentTarget.querySelectorAll("a:not([hidden])")];
  const current = cells.indexOf(document.activeElement), last = cells.length - 1;
  const columns = cells.filter((cell) => cell.offsetTop === cells[0].offsetTop).length;
  const targets = { ArrowLeft: current - 1, ArrowRight: current + 1, ArrowUp: current - columns,
    ArrowDown: current + columns, Home: 0, End: last };
  onKey(event, targets, (index) => cells[index]?.focus());
}

const TABLE_ROWS = 16, TABLE_PIXELS = 590;

/** Wide screens show several tables side by side. */
function table() {
  const rows = devices.map((_, index) => row(index)), element = make("div", { class: "tables" });
  let shown = "";
  const arrange = () => {
    const { sort, filter } = choices();
    element.classList.toggle("owned", devices.some((device) => device.owners));
    const indices = sorted([...rows.keys()].filter((index) => matches(index, filter)), sort);
    const maxCount = Math.max(1, Math.floor(find("main").clientWidth / TABLE_PIXELS));
    const count = Math.max(1, Math.min(maxCount, Math.ceil(indices.length / TABLE_ROWS)));
    const layout = `${sort} ${count} ${indices}`;
    if (layout === shown) return;
    shown = layout;
    const length = Math.ceil(indices.length / count), elements = indices.map((index) => rows[index].element);
    keepingFocus(() => element.replaceChildren(...Array.from({ length: count }, (_, i) =>
      tableOf(elements.slice(i * length, (i + 1) * length), sort, i === 0))));
  };
  return view(element, rows, { describe: arrange, draw: arrange });
}

function sorted(indices, sort) {
  const keyOf = COLUMNS.find(([key]) => key === sort.replace("-", ""))[2], sign = sort.startsWith("-") ? -1 : 1;
  return indices.sort((a, b) => sign * ((keyOf(a) > keyOf(b)) - (keyOf(a) < keyOf(b))) || a - b);
}

function tableOf(rows, sort, isFirst) {
  const headings = COLUMNS.map(([key, name]) => {
    if (!isFirst) return make("th", { scope: "col" }, name);
    const isChosen = key === sort.replace("-", ""), isDown = sort.startsWith("-");
    const button = make("button", { type: "button", "data-sort": key }, name);
    on(button, "click", () => choose({ sort: isChosen && isDown ? key : `-${key}` }));
    const order = isDown !== (key === "device") ? "descending" : "ascending";
    return make("th", { scope: "col", ...(isChosen && { "aria-sort": order }) }, button);
  });
  return make("table", { class: "dense" }, make("thead", {}, make("tr", {}, ...headings)), make("tbody", {}, ...rows));
}

function keepingFocus(act) {
  const focused = document.activeElement, { device } = focused?.closest("[data-device]")?.dataset ?? {};
  const scope = focused?.closest("table") ? "table " : "";
  act();
  if (!focused || focused === document.activeElement) return;
  if (focused.isConnected) focused.focus();
  else if (focused.dataset.sort) find(`[data-sort="${focused.dataset.sort}"]`)?.focus();
  else if (focused.dataset.chip) find(`[data-chip="${CSS.escape(focused.dataset.chip)}"]`)?.focus();
  else if (device) focusOn(device, scope);
}

function focusOn(device, scope = "") {
  const element = find(`${scope}[data-device="${CSS.escape(device)}"]`);
  (element?.matches("a") ? element : element?.querySelector("a"))?.focus();
}

function eventLine({ time, id, code, text }) {
  const name = devices[indexById.get(id)]?.name ?? id;
  const words = [utc(secondsOf(time)).slice(11), name, code, text].filter(Boolean).join(" · ");
  return make("li", { title: words }, words);
}

function eventList(limit, id) {
  const list = make("ul", { class: "events" }), element = make("section", {}, make("h2", {}, "Events"), list);
  const draw = () => {
    const events = past.events.filter((event) => !id || event.id === id).slice(-limit).reverse();
    element.hidden = !events.length;
    setChildren(list, events.map(eventLine));
  };
  return view(element, [], { draw });
}

function reorder(element, children) {
  if (children.some((child, i) => element.children[i] !== child)) keepingFocus(() => element.replaceChildren(...children));
}

/** Replaces only the children that changed. */
function setChildren(element, lines) {
  lines.forEach((line, i) => {
    const old = element.children[i];
    if (!old) element.append(line);
    else if (old.textContent !== line.textContent) old.replaceWith(line);
  });
  while (element.childElementCount > lines.length) element.lastElementChild.remove();
}

function sourceItem(source) {
  const problems = source.problems.map((problem) => make("small", { class: "problem" }, `${problem.where}: ${problem.text}`));
  const version = make("small", {}, ` ${source.version ?? ""}`);
  return make("li", {}, make("b", {}, source.source), " ", setState(make("span"), source), version, ...problems);
}

const troubleItem = ({ what, why, remedy, severity }) => make("li", { class: severity }, make("strong", {}, what), `: ${why}`,
  make("br"), make("span", { class: "dim" }, ...withCode(remedy)));

function overview() {
  const { metric } = choices(), tables = isSmall() ? [] : [table()], events = eventList(6);
  const parts = devices.map((_, index) => (isSmall() ? tile(index) : cell(index, metric)));
  const troubles = make("ul", { class: "troubles" }), sources = make("ul", { class: "sources" });
  const empty = make("p", { class: "empty" }), isEmpty = !parts.length;
  const advice = "No accelerator found. To find out why: `telemetry doctor`. Try simulated cards: `telemetry top --demo`.";
  if (isEmpty) empty.append(...withCode(advice));
  const summary = figures(), filters = toolbar();
  const cards = isSmall() ? tiles(parts) : deviceMap(parts, metric);
  const element = make("div", {}, summary.element, troubles, filters.element, empty, cards, ...elementsOf(tables),
    make("div", { class: "more" }, events.element, make("section", {}, make("h2", {}, "Sources"), sources)));
  const describe = () => {
    const { filter } = choices();
    parts.forEach((part, index) => (part.element.hidden = !matches(index, filter)));
    const first = parts.find((part) => !part.element.hidden);
    empty.hidden = Boolean(first);
    if (!isEmpty && !empty.hidden) setText(empty, `Nothing matches “${filter.trim()}”.`);
    if (isSmall()) reorder(cards, sorted([...parts.keys()], "-condition").map((index) => parts[index].element));
    if (first && !isSmall() && !cards.querySelector("[tabindex='0']:not([hidden])")) first.element.tabIndex = 0;
    setChildren(troubles, live.state.troubles.map(troubleItem));
    setChildren(sources, live.state.sources.map(sourceItem));
  };
  return { ...view(element, [summary, filters, ...parts, ...tables, events], { describe }), metric };
}

// ---- One device ----

function chart(index, metric) {
  const { id } = devices[index], value = reading(index, metric, "b"), shown = make("span", { class: "at" });
  const line = sparkline(index, metric, 1, "gap area top line limit event chosen cross");
  const labels = () => [1, 0.5, 0].map((part) => [part, make("span")]), ticks = labels(), clocks = labels();
  const element = make("div", { class: "chart" },
    make("div", {}, make("h3", {}, nameOf(metric)), value.element, shown),
    make("div", { class: "plot" }, make("div", { class: "ticks" }, ...ticks.map(([, label]) => label)), line.element),
    make("div", { class: "scale" }, ...clocks.map(([, label]) => label)));
  const textAt = (slot) => {
    const { last, highest } = past.seriesOf(id, metric), value = past.at(last, slot);
    if (Number.isNaN(value)) return past.reason(id, metric, slot) || "no reading";
    const text = inWords(value, metric), peak = inWords(past.at(highest, slot), metric);
    return text === peak ? text : `${text} (highest ${peak})`;
  };
  return {
    ...view(element, [value, line], {
      draw() {
        for (const [part, tick] of ticks) setText(tick, inWords(part * ceilingOf(index, metric), metric));
      },
    }),
    zoom(first, count) {
      line.zoom(first, count);
      for (const [part, clock] of clocks)
        setText(clock, utc((first + (1 - part) * count) * past.slotSeconds).slice(11, count < 120 ? 19 : 16));
    },
    select(from, to) {
      const left = from - past.first;
      line.setPaths({ chosen: from === null ? "" : `M${left} 0H${to - past.first}V${HEIGHT}H${left}Z` });
    },
    words: (slot) => `${nameOf(metric)} ${textAt(slot)}`,
    point(slot) {
      line.setPaths({ cross: slot === null ? "" : `M${slot - past.first + 0.5} 0V${HEIGHT}` });
      const text = slot === null ? "" : textAt(slot);
      setText(shown, text, text);
    },
  };
}

const MIN_SLOTS = 6, ZOOMS = [["5 min", 300], ["15 min", 900], ["All", Infinity]];

/** Buttons that choose the visible slots: the newest, or those from `begin`. */
function zoomTools(onChange) {
  const range = { begin: null, count: Infinity };
  const choose = (begin, count) => {
    Object.assign(range, { begin, count });
    onChange();
  };
  const buttons = ZOOMS.map(([name, seconds]) => {
    const button = make("button", { type: "button" }, name), count = seconds / past.slotSeconds;
    on(button, "click", () => choose(null, count));
    return { button, count };
  });
  const visible = () => {
    const count = Math.min(range.count, past.slots);
    if (range.begin < past.first) range.begin = null;
    for (const { button, count: other } of buttons) button.setAttribute("aria-pressed", range.begin === null && range.count === other);
    return { first: range.begin ?? past.newest - count, count };
  };
  const element = make("div", { class: "tools zoom", role: "group", "aria-label": "Time range" },
    ...buttons.map(({ button }) => button), make("span", { class: "dim" }, "Zoom: drag in a chart, or + and -."));
  return { element, choose, visible };
}

/** All charts show the same range, and the moment chosen by pointer or keys. */
function charts(index, output, strip) {
  const { id } = devices[index];
  const plots = metrics().filter((metric) => metric !== "throttled").map((metric) => chart(index, metric));
  const element = make("div", { class: "charts", role: "slider", tabindex: 0, "aria-label": "Moment of the last half hour" },
    ...elementsOf(plots));
  let moment = null, drag = null;
  const zoom = zoomTools(() => point(moment));
  const point = (slot) => {
    const { first, count } = zoom.visible();
    [...plots, strip].forEach((plot) => plot.zoom(first, count));
    moment = slot === null ? null : Math.min(Math.max(slot, first), first + count - 1);
    plots.forEach((plot) => plot.point(moment));
    const throttled = moment !== null && past.at(past.seriesOf(id, "throttled").highest, moment) > 0 ? ["throttled"] : [];
    const words = moment === null ? []
      : [utc(moment * past.slotSeconds).slice(11), ...throttled, ...plots.map((plot) => plot.words(moment))];
    setText(output, words.join(" · "));
    const values = { min: first - past.newest, max: first + count - 1 - past.newest, now: (moment ?? past.newest - 1) - past.newest,
      text: words.join(", ") || "now" };
    for (const name in values) element.setAttribute(`aria-value${name}`, values[name]);
  };
  const slotUnder = ({ clientX, target }) => {
    const box = (drag?.svg ?? target.closest(".chart")?.querySelector("svg"))?.getBoundingClientRect(), { first, count } = zoom.visible();
    return box && first + Math.floor((count * Math.min(Math.max(clientX - box.left, 0), box.width - 1)) / box.width);
  };
  const endDrag = () => {
    drag = null;
    plots.forEach((plot) => plot.select(null));
  };
  on(element, "pointerdown", (event) => {
    const from = slotUnder(event);
    if (from !== undefined && !event.button) drag = { from, svg: event.target.closest(".chart").querySelector("svg") };
  });
  on(element, "pointermove", (event) => {
    const slot = slotUnder(event);
    if (slot === undefined) return;
    point(slot);
    if (drag) plots.forEach((plot) => plot.select(Math.min(drag.from, slot), Math.max(drag.from, slot) + 1));
  });
  on(element, "pointerup", (event) => {
    if (!drag) return;
    const to = slotUnder(event), count = Math.abs(to - drag.from) + 1, first = Math.min(to, drag.from);
    endDrag();
    if (count >= MIN_SLOTS) zoom.choose(first, count);
  });
  on(element, "pointercancel", endDrag);
  on(element, "pointerleave", () => {
    endDrag();
    point(null);
  });
  const zoomBy = (factor) => {
    const { first, count } = zoom.visible(), next = Math.max(MIN_SLOTS, Math.min(past.slots, Math.round(count * factor)));
    const begin = Math.max(past.first, Math.min((moment ?? first + count - 1) - Math.round(next / 2), past.newest - next));
    next === past.slots ? zoom.choose(null, Infinity) : zoom.choose(begin, next);
  };
  on(element, "keydown", (event) => {
    const from = moment ?? past.newest, step = Math.round(60 / past.slotSeconds), { first, count } = zoom.visible();
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, ArrowDown: from - 1, ArrowUp: from + 1, PageDown: from - step,
      PageUp: from + step, Home: first, End: first + count };
    onKey(event, to, point);
    onKey(event, { "+": 0.5, "-": 2 }, zoomBy);
  });
  return { ...view(element, plots, { draw: () => point(moment) }), toolbar: zoom.element };
}

const OWNER_LINE = /^(owner|process) /;
const GROUPS = [
  ["Heat", /^(temperature|fan|throttled)/], ["Power", /^(power|energy)/],
  ["Memory and its errors", /^(memory|ecc|row|remapped|retired)/], ["Work", /^(util|busy|clock|engine|graphics|sm |tensor|pipe|video)/],
  ["Links", /^(link|pcie)/], ["Health and events", /^(event|health|recovery|suspended)/], ["Other", /^/],
];

const RATES = { bytes: (value) => `${decimal(value)}B/s`, joules: BY_UNIT.watts, seconds: (share) => percent(Math.min(share, 1)) };
const ZERO = /^0( (%|B|B\/s|W|s|J))?$/, SHOWN_ZEROS = /^(utilization|performance state|processes|ecc enabled|link up)/;

function decimal(value) {
  const prefixes = ["", "k", "M", "G", "T"];
  while (value >= 999.5 && prefixes.length > 1) {
    value /= 1000;
    prefixes.shift();
  }
  return `${digits(value)} ${prefixes[0]}`;
}

/** Shows counters as rates. Counts without a unit keep their total. */
function makeRates() {
  const counters = new Map();
  return (line) => {
    const { total, taken, unit } = line.dataset, name = line.firstChild.textContent, words = line.querySelector("dd").firstChild;
    if (total === undefined) return;
    const value = Number(total), time = Number(taken), reading = { value, time };
    const { first = reading, last = reading, rate } = counters.get(name) ?? {}, growth = value - first.value;
    const isNew = time > last.time && value >= last.value, isReset = value < last.value, hours = (time - first.time) / 3600;
    const nextRate = isNew ? (value - last.value) / (time - last.time) : isReset ? undefined : rate;
    counters.set(name, { first: value < first.value ? reading : first, last: isNew || isReset ? reading : last, rate: nextRate });
    if (unit && nextRate !== undefined) words.data = `${RATES[unit](nextRate)} `;
    else if (!unit && growth > 0 && hours > 1 / 60) words.data += `(${digits(Math.round(growth / hours))} per hour) `;
  };
}

/** All readings in groups, with a search field. One line names the readings that are 0. */
function readingList() {
  const showRate = makeRates();
  const search = make("input", { type: "search", placeholder: "Search readings", "aria-label": "Search readings" });
  const empty = make("p", { class: "empty" });
  const groups = GROUPS.map(([name]) => {
    const list = make("dl", { class: "list" }), zeros = make("p", { class: "dim" });
    return { list, zeros, section: make("section", {}, make("h4", {}, name), list, zeros) };
  });
  const nameIn = (line) => line.firstChild.textContent;
  const valueIn = (line) => line.querySelector("dd").firstChild.data.trim();
  // Lines without a source are facts.
  const isZero = (line) => ZERO.test(valueIn(line)) && !SHOWN_ZEROS.test(nameIn(line)) && line.querySelector("small").textContent;
  const isUp = (line) => /^link up /.test(nameIn(line)) && valueIn(line) === "1";
  const applyFilter = () => {
    const filter = search.value.trim().toLowerCase();
    for (const { list, zeros, section } of groups) {
      const lines = [...list.children], folded = filter ? [] : lines.filter(isZero), up = filter ? [] : lines.filter(isUp);
      for (const line of lines) line.hidden = [...folded, ...up].includes(line) || !line.textContent.toLowerCase().includes(filter);
      const words = [up.length && `${up.length} links are up`, folded.length && `0: ${folded.map(nameIn).join(", ")}`].filter(Boolean);
      setText(zeros, words.join(" · "));
      section.hidden = !words.length && lines.every((line) => line.hidden);
    }
    empty.hidden = !filter || groups.some(({ section }) => !section.hidden);
    setText(empty, `Nothing matches “${search.value.trim()}”.`);
  };
  on(search, "input", applyFilter);
  const fill = (lines) => {
    lines.forEach(showRate);
    const groupOf = (line) => GROUPS.findIndex(([, pattern]) => pattern.test(line.textContent.trim().toLowerCase()));
    groups.forEach(({ list }, i) => setChildren(list, lines.filter((line) => groupOf(line) === i)));
    applyFilter();
  };
  const element = make("div", { class: "readings" }, make("div", { class: "tools" }, make("h3", {}, "Readings"), search),
    empty, ...groups.map(({ section }) => section));
  return { element, fill };
}

function card(index) {
  const { id } = devices[index];
  const heading = make("h2", { tabindex: -1 }), state = stateOf(index), modelText = make("span", { class: "model" });
  const findings = make("ul", { class: "troubles" }), readings = readingList();
  const output = make("output", { "aria-live": "off" });
  const strip = eventStrip(index), plots = charts(index, output, strip), events = eventList(256, id);
  const owners = make("dl", { class: "list" });
  const ownerSection = make("section", { class: "readings" }, make("h4", {}, "Owners and processes"), owners);
  ownerSection.hidden = true;
  const back = make("a", { href: addressOf({ card: "" }), "data-back": "" }, "← All devices");
  const element = make("section", { id: "card", "aria-label": "One device" },
    make("div", {}, back, heading, state.element, modelText), findings, ownerSection, plots.toolbar, plots.element, strip.element,
    output, events.element, readings.element);
  const load = async (since) => {
    loadPast({ device: id, ...since });
    const list = (await pageAt(`?${new URLSearchParams({ device: id })}`))?.querySelector(".list");
    if (!list) return;
    const isOwner = (line) => OWNER_LINE.test(line.textContent.trim()), lines = [...list.children];
    setChildren(owners, lines.filter(isOwner));
    ownerSection.hidden = !owners.childElementCount;
    readings.fill(lines.filter((line) => !isOwner(line)));
  };
  const handlers = {
    describe() {
      const { name, model, findings: conditions } = devices[index];
      setText(heading, name, name);
      setText(modelText, model ?? "", model ?? "");
      const explained = conditions.filter((finding) => finding.meaning);
      setChildren(findings, explained.map(({ words, meaning, ...rest }) => troubleItem({ what: words, why: meaning, ...rest })));
    },
  };
  const onOpen = () => {
    heading.focus({ preventScroll: true });
    scrollTo(0, 0);
    load();
  };
  return { ...view(element, [state, plots, strip, events], handlers), id, onOpen, load };
}

// ---- What is shown ----

let listView = null, cardView = null, isLive = false;
const currentView = () => cardView ?? listView;

function show() {
  if (!isLive) return;
  const { card: id, metric } = choices(), main = find("main"), previousId = cardView?.id;
  if (!listView || listView.metric !== metric) {
    if (listView) loadPast({ metric });
    listView = overview();
  }
  if (previousId !== (id || undefined)) cardView = id ? card(indexById.get(id)) : null;
  const { element } = currentView();
  if (!element.isConnected) main.replaceChildren(element);
  main.classList.remove("plain");
  refresh();
  if (cardView && cardView.id !== previousId) cardView.onOpen();
  else if (!cardView && previousId) focusOn(previousId);
}

function refresh() {
  if (!isLive || document.hidden) return;
  if (live.time) setText(find(".time"), utc(live.time));
  describe();
  currentView().update();
  currentView().draw();
}

function describe() {
  const { inventory, notes } = live.state, hostname = live.state.hostname ?? "";
  live.isChanged = false;
  setText(find("h1"), hostname, hostname);
  setText(find(".inventory"), inventory, inventory);
  const card = fromHash().get("card"), isUnknown = card && !indexById.has(card);
  const unknown = isUnknown ? [`No device here has the id “${card}”. These are all devices.`] : [];
  setChildren(find("#notes"), [...unknown, ...notes].map((note) => make("p", { class: "note" }, note)));
  const urgentCount = devices.filter(({ condition }) => ["bad", "warning"].includes(condition.severity)).length;
  document.title = `${urgentCount ? `▲ ${urgentCount} · ` : ""}${hostname} · device telemetry`;
  currentView().describe();
}

function onState(state) {
  if (state.version !== page.version && sessionStorage.getItem("version") !== state.version) {
    sessionStorage.setItem("version", state.version);
    return location.reload();
  }
  const ids = (all) => all.map((device) => device.id).join("\n");
  const isSame = isLive && ids(state.devices) === ids(devices);
  ({ devices } = state);
  indexById = new Map(devices.map((device, i) => [device.id, i]));
  live.state = state;
  if (!isSame) live.values = [];
  isLive = true;
  setBanner("");
  if (isSame) return refresh();
  keepingFocus(() => {
    listView = cardView = null;
    show();
  });
  loadPast(isSmall() ? {} : { metric: choices().metric });
}

function onDevice(entry) {
  const index = indexById.get(entry.id), before = devices[index];
  if (!before) return;
  devices[index] = entry;
  live.isChanged = true;
  if (before.condition.word !== entry.condition.word) setText(find("#news"), `${entry.name}: ${entry.condition.word}`);
  if (`${before.open_events}` !== `${entry.open_events}`) setTimeout(loadPast, 1000, { device: entry.id, metric: "throttled" });
}

function onReadings({ time, valid_seconds, host, values }) {
  const { scales, columns } = live.state;
  live.values = values.map((row) => row?.map((value, i) => value && value * scales[i]));
  Object.assign(live, { time, host, until: performance.now() + (valid_seconds ?? Infinity) * 1000 });
  if (past.slotAt(time) < past.newest - 1) past = newPast(); // the clock was set back
  const hasEnded = past.add(time, devices, columns, live.values);
  pageClasses.remove("stale");
  if (document.hidden) return;
  setText(find(".time"), utc(time));
  if (live.isChanged) describe();
  currentView().update();
  if (!hasEnded) return;
  currentView().draw();
  cardView?.load({ since: time - 60 });
}

// ---- The daemon ----

const MAX_SILENCE_MS = 2300, CHECK_SECONDS = 2, PLAIN_PAUSE_MS = 5000, MAX_PAUSE_MS = 15000;
const stream = { source: null, lastId: "", seenAt: 0, pause: 1000, timer: 0, isChecking: false };

/** Returns null if the daemon does not answer. */
const fetchText = (path, seconds = 30) =>
  fetch(`./${path}`, { cache: "no-store", signal: AbortSignal.timeout(1000 * seconds) })
    .then((answer) => (answer.ok ? answer.text() : null))
    .catch(() => null);

const isAnswering = () => fetchText("healthz", CHECK_SECONDS);

async function pageAt(query) {
  const text = await fetchText(query);
  return text && new DOMParser().parseFromString(text, "text/html");
}

async function loadPast(query) {
  const recent = JSON.parse(await fetchText(`api/v1/history?${new URLSearchParams(query)}`));
  if (!recent || !isLive) return;
  past.merge(recent);
  refresh();
}

const HANDLERS = {
  state: onState,
  device: onDevice,
  troubles({ troubles }) {
    live.state.troubles = troubles;
    live.isChanged = true;
  },
  readings: onReadings,
  history: ({ id, series, ...rest }) => past.merge({ ...rest, devices: series ? [{ id, series }] : [] }),
};

function connect() {
  disconnect();
  const source = new EventSource(`./api/v1/events?${new URLSearchParams({ last_event_id: stream.lastId })}`);
  Object.assign(stream, { source, seenAt: performance.now() });
  for (const [name, handle] of Object.entries(HANDLERS))
    on(source, name, (event) => {
      if (source !== stream.source) return;
      Object.assign(stream, { seenAt: performance.now(), lastId: event.lastEventId, pause: 1000 });
      if (name === "state" || isLive) handle(JSON.parse(event.data));
    });
  source.onerror = async () => {
    const isRefused = source.readyState === EventSource.CLOSED;
    if (source !== stream.source) return;
    disconnect();
    if (!(await isAnswering())) showLost();
    else if (isRefused) showPlainPage();
    else retryLater(connect);
  };
}

function disconnect() {
  clearTimeout(stream.timer);
  stream.source?.close();
  stream.source = null;
}

/** Calls `act` after a growing, random pause, so pages do not all reconnect at once. */
function retryLater(act) {
  clearTimeout(stream.timer);
  stream.timer = setTimeout(act, stream.pause * (0.75 + Math.random() / 2));
  stream.pause = Math.min(stream.pause * 2, MAX_PAUSE_MS);
}

function setBanner(text) {
  const banner = find("#banner");
  banner.hidden = !text;
  if (banner.dataset.text !== text) banner.replaceChildren(...withCode(text));
  banner.dataset.text = text;
  pageClasses.toggle("live", !text);
}

function showLost() {
  disconnect();
  const age = live.time ? `, ${ageInWords(Math.max(0, Date.now() / 1000 - live.time))} old` : "";
  setBanner(`The daemon does not answer. These are the last values, of ${find(".time").textContent}${age}.
    On the node, see \`systemctl status telemetry\`, and whether the network reaches it.`);
  retryLater(reconnect);
}

const reconnect = async () => ((await isAnswering()) ? connect() : showLost());

/** Shows the page without a stream, because all are in use. */
async function showPlainPage() {
  stream.timer = setTimeout(connect, PLAIN_PAUSE_MS);
  const other = await pageAt("");
  if (!other) return showLost();
  for (const selector of ["h1", ".inventory", ".time", "#notes", "main"])
    find(selector).replaceChildren(...other.querySelector(selector).childNodes);
  live.until = performance.now() + 3 * PLAIN_PAUSE_MS;
  pageClasses.remove("stale");
  find("main").classList.add("plain");
  isLive = false;
  listView = cardView = null;
  past = newPast();
  setBanner(`Too many pages are open for live values: this one shows new ones every ${PLAIN_PAUSE_MS / 1000} s.`);
}

async function checkStream() {
  const now = performance.now(), { source } = stream;
  pageClasses.toggle("stale", now > live.until);
  if (stream.isChecking || !source || now - stream.seenAt < MAX_SILENCE_MS) return;
  stream.isChecking = true;
  const answers = await isAnswering();
  stream.isChecking = false;
  if (source !== stream.source) return;
  stream.seenAt = performance.now();
  if (!answers) showLost();
  else if (now > live.until + MAX_PAUSE_MS) connect();
}

// ---- The beginning ----

addEventListener("popstate", show);
addEventListener("resize", () => isLive && listView.describe());
on(document, "visibilitychange", refresh);
on(document, "click", (event) => {
  const anchor = event.target.closest("a"), device = anchor?.closest("[data-device]")?.dataset.device;
  const isSkip = anchor?.matches(".skip"), isOurs = isLive && (device || anchor?.matches("[data-back]"));
  if (!(isSkip || isOurs) || event.button || event.shiftKey || !isPlain(event)) return;
  event.preventDefault();
  if (isSkip) find("main").focus();
  else choose({ card: device ?? "" });
});
on(document, "keydown", (event) => {
  if (!isPlain(event) || !isLive) return;
  if (event.key === "Escape" && cardView) choose({ card: "" });
  const search = find("input[type=search]");
  if (search && document.activeElement !== search) onKey(event, { "/": search }, () => search.focus());
});
setInterval(checkStream, 250);
connect();
