// What a page does besides showing: it is updated while somebody looks at it, rows are selected, and
// keys lead through it. All pages work without it.
"use strict";
(() => {
  const main = document.getElementById("main");
  const content = document.getElementById("content");
  const status = document.getElementById("live-state");
  const button = document.getElementById("live-button");
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];

  // ---- Updates put new HTML in the place of the old, node by node: what has not changed stays as it
  // is, with its focus, its selection and its scroll position.

  // keyOf tells a node from its siblings: a row by its job or its first link.
  const keyOf = (node) => {
    if (node.nodeType !== Node.ELEMENT_NODE) return "";
    if (node.id) return "#" + node.id;
    if (node.nodeName !== "TR") return "";
    const named = node.querySelector("td.pick input") || node.querySelector("a[href]");
    return named ? named.getAttribute("value") || named.getAttribute("href") : "";
  };
  const isSame = (a, b) => a.nodeName === b.nodeName && keyOf(a) === keyOf(b);
  const isOurs = (node) => node.nodeType === Node.ELEMENT_NODE && "ours" in node.dataset;
  // isBusy reports whether somebody types into a field, or has it open.
  const isBusy = (node) => node === document.activeElement &&
    node.matches("input:not([type=checkbox], [type=radio]), select, textarea");

  const updateAttributes = (old, now) => {
    for (const { name } of [...old.attributes]) {
      if (!now.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    }
    for (const { name, value } of now.attributes) {
      if (old.getAttribute(name) !== value && name !== "open") old.setAttribute(name, value);
    }
  };
  const update = (old, now) => {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== now.data) old.data = now.data;
      return;
    }
    if (isBusy(old) || old.isEqualNode(now)) return;
    updateAttributes(old, now);
    updateChildren(old, now);
  };
  // matchOf finds what a new node takes the place of: the next one if it is alike, or one behind it.
  const matchOf = (now, at) => {
    if (at && isSame(at, now)) return at;
    if (now.nodeType !== Node.ELEMENT_NODE) return null;
    const isKeyed = keyOf(now) !== "";
    for (let other = at; other; other = other.nextSibling) {
      if (isOurs(other) || !isSame(other, now)) continue;
      if (isKeyed || other.getAttribute("class") === now.getAttribute("class")) return other;
    }
    return null;
  };
  const updateChildren = (old, now) => {
    let at = old.firstChild;
    const skip = () => { while (at && isOurs(at)) at = at.nextSibling; };
    for (const child of [...now.childNodes]) {
      skip();
      const match = matchOf(child, at);
      if (!match) {
        old.insertBefore(child, at);
      } else if (match === at) {
        at = at.nextSibling;
        update(match, child);
      } else {
        old.insertBefore(match, at);
        update(match, child);
      }
    }
    for (skip(); at; skip()) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  };

  // keepFocus changes something, and puts the focus back where it was, or on the row that came into
  // the place of its row.
  const keepFocus = (change) => {
    const focused = content.contains(document.activeElement) ? document.activeElement : null;
    const at = rows().indexOf(focused?.closest("tr"));
    change();
    if (!focused || document.activeElement === focused) return;
    if (focused.isConnected) focused.focus({ preventScroll: true });
    else (goal(rows()[Math.min(at, rows().length - 1)]) || main).focus({ preventScroll: true });
  };

  let next = null; // the body that is to be shown
  let isPressed = false;
  const isReading = () => {
    const selection = getSelection();
    return isPressed || !selection.isCollapsed && content.contains(selection.anchorNode);
  };
  // Rows do not move while one of them is selected or under the pointer.
  let isMouse = false; // a finger leaves nothing where it was
  const held = ": shown when no row is selected or under the pointer";
  const isHeld = () => content.querySelector("tbody .pick input:checked") ||
    isMouse && content.querySelector("tbody tr:hover");
  const keysOf = (inside) => all("tbody tr", inside).map(keyOf).filter(Boolean);
  const hold = () => {
    const [old, now] = [keysOf(content), keysOf(next)];
    if (old.join("\n") === now.join("\n")) return false;
    const fresh = now.filter((key) => !old.includes(key)).length;
    say((fresh ? `${fresh} new` : "Newer") + held);
    return true;
  };
  const show = () => {
    if (next === null || isReading() || isHeld() && hold()) return;
    if (status.textContent.endsWith(held)) say("");
    const now = next;
    next = null;
    keepFocus(() => updateChildren(content, now));
    furnish();
  };
  document.addEventListener("pointerover", (event) => {
    isMouse = event.pointerType === "mouse";
    show();
  });
  document.addEventListener("pointerdown", () => { isPressed = true; });
  for (const end of ["pointerup", "pointercancel", "dragend"]) {
    document.addEventListener(end, () => { isPressed = false; setTimeout(show, 300); });
  }
  document.addEventListener("selectionchange", show);

  // ---- The connection is there while somebody looks, so that an open tab costs nothing. A browser
  // has six for a server: a page that is seen, but has not the focus, opens one now and then.

  let source = null;
  const isPaused = () => sessionStorage.getItem("qless-paused") === "1";
  const say = (text) => { if (status.textContent !== text) status.textContent = text; };
  const disconnect = () => {
    source?.close();
    source = null;
    button.classList.remove("on");
  };
  const again = (mine, delay) => setTimeout(() => { if (mine === source) connect(); }, delay);
  const rest = (mine) => {
    if (document.hasFocus()) return;
    mine.close();
    again(mine, 2000);
  };
  const connect = () => {
    button.textContent = isPaused() ? "Resume updates" : "Pause updates";
    source?.close();
    if (isPaused()) say("Paused");
    if (isPaused() || document.hidden) return disconnect();
    const mine = source = new EventSource(main.dataset.live);
    mine.addEventListener("content", (event) => {
      next = new DOMParser().parseFromString(JSON.parse(event.data), "text/html").body;
      button.classList.add("on");
      if (!status.textContent.endsWith(held)) say("");
      show();
      rest(mine);
    });
    mine.addEventListener("late", (event) => {
      button.classList.remove("on");
      const at = event.data && `: this was at ${new Date(event.data).toLocaleTimeString()}`;
      say(`Redis does not answer${at}`);
      rest(mine);
    });
    mine.addEventListener("error", () => {
      if (mine !== source) return;
      button.classList.remove("on");
      say("Interrupted: the page may be out of date");
      if (mine.readyState === EventSource.CLOSED) again(mine, 5000);
    });
  };
  const toggle = () => {
    sessionStorage.setItem("qless-paused", isPaused() ? "0" : "1");
    if (!isPaused()) say("");
    next = null;
    connect();
  };

  // ---- Rows are selected one by one, all, or from one to another with Shift.

  const rows = () => all("tbody tr", content).filter((row) => row.checkVisibility());
  const goal = (row) => row?.querySelector("a[href]") || row?.querySelector("input");
  const boxes = (form = content) => all("tbody .pick input", form);
  let last = null; // the box that was changed last

  const pick = (box, isRange) => {
    const some = boxes(box.form || content);
    const [from, to] = [some.indexOf(last), some.indexOf(box)].sort((a, b) => a - b);
    if (isRange && from >= 0) for (const other of some.slice(from, to + 1)) other.checked = box.checked;
    last = box;
    count();
  };
  const pickAll = (form) => {
    const some = boxes(form);
    const isOn = some.some((box) => !box.checked);
    for (const box of some) box.checked = isOn;
    count();
  };
  const create = (name, properties, parent) => {
    const made = Object.assign(document.createElement(name), properties);
    made.dataset.ours = "";
    return parent.appendChild(made);
  };
  const count = () => {
    for (const form of all("form.jobs", content)) {
      const some = boxes(form);
      const picked = some.filter((box) => box.checked).length;
      const box = form.querySelector("thead input");
      if (box) {
        box.checked = picked > 0 && picked === some.length;
        box.indeterminate = picked > 0 && picked < some.length;
      }
      const text = form.querySelector(".picked");
      if (text && text.textContent !== `${picked} selected`) text.textContent = `${picked} selected`;
    }
  };
  // ages keeps the ages up to date, and tells times in the zone of the viewer, too. The clock of the
  // viewer may be wrong.
  const skew = Date.now() - Date.parse(main.dataset.now);
  const ageOf = (s) => {
    const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
    const at = units.findIndex(([, length]) => s >= length);
    const [[large, length], [small, rest]] = [units[at], units[at + 1] || []];
    return `${Math.floor(s / length)}${large}` +
      (small ? `${Math.floor(s % length / rest)}`.padStart(2, "0") + small : "");
  };
  const ages = () => {
    for (const time of all("time", content)) {
      const [at, text] = [new Date(time.dateTime), time.firstChild];
      if ("at" in time.dataset) {
        text.data = at.toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });
        continue;
      }
      const ms = Date.now() - skew - at;
      const s = Math.floor(Math.abs(ms) / 1000);
      const age = s < 1 ? "now" : ms > 0 ? `${ageOf(s)} ago` : `in ${ageOf(s)}`;
      if (text.data !== age) text.data = age;
      if (!time.title.includes("(")) time.title = `${time.title} (${at.toLocaleString()})`;
    }
  };
  // A time that is typed without a zone is in the zone of the viewer, and becomes one in UTC in the
  // URL, where it means the same tomorrow.
  const ends = (form) => all("input:is([name=since], [name=until]):not([type=hidden])", form);
  const inUTC = (text) => {
    const [, date, time] = /^(\d{4}-\d\d-\d\d)?[ T]?(\d\d:\d\d(?::\d\d)?)?$/.exec(text.trim()) || [];
    const at = new Date(date ? `${date}T${time || "00:00"}` : `${new Date().toDateString()} ${time}`);
    if (isNaN(at)) return text;
    if (!date && at > new Date()) at.setDate(at.getDate() - 1);
    return at.toISOString();
  };
  content.addEventListener("submit", (event) => {
    for (const field of ends(event.target)) field.value = inUTC(field.value);
  });
  // furnish adds to the tables what only works with this script.
  const furnish = () => {
    for (const form of all("form.jobs", content)) {
      const head = form.querySelector("thead .pick");
      if (head && boxes(form).length > 0 && !head.querySelector("input")) {
        create("input", { type: "checkbox", ariaLabel: "Select all", onclick: () => pickAll(form) }, head);
        head.querySelector("span")?.remove();
      }
      const acts = form.querySelector(".acts");
      if (acts && !acts.querySelector(".picked")) create("span", { className: "picked", role: "status" }, acts);
    }
    for (const chart of all(".axes", content)) if (places.has(chart)) point(chart, places.get(chart));
    for (const id of all("[data-copy]", content)) {
      if (id.parentElement.querySelector(".copy")) continue;
      create("button", { className: "copy", type: "button", value: id.dataset.copy, ariaLabel: `Copy ${id.dataset.copy}` },
        id.parentElement);
    }
    for (const field of ends(content)) {
      if (/Z$/.test(field.value)) field.value = new Date(field.value).toLocaleString("sv");
      field.title = "in your zone, or an age";
    }
    ages();
    count();
  };
  content.addEventListener("click", (event) => {
    if (!event.target.matches("tbody .pick input")) return;
    pick(event.target, event.shiftKey);
    show();
  });

  // ---- Charts say what was at the pointer, or at the value that the arrow keys lead to. A jid is
  // copied with a click beside its link.

  const places = new WeakMap(); // of the values that charts say, which an update does not change
  const point = (chart, place) => {
    const hits = all(".hit", chart);
    const hit = hits[Math.max(0, Math.min(hits.length - 1, place))];
    const key = chart.previousElementSibling;
    if (!hit || !key?.matches(".key")) return;
    places.set(chart, hits.indexOf(hit));
    chart.querySelector(".hit.at")?.classList.remove("at");
    hit.classList.add("at");
    const at = key.querySelector(".at") || create("span", { className: "at", role: "status" }, key);
    at.textContent = hit.textContent;
  };
  content.addEventListener("pointerover", (event) => {
    const chart = event.target.closest(".axes");
    if (event.target.matches(".hit")) point(chart, all(".hit", chart).indexOf(event.target));
  });
  const copy = async (text) => {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    const field = create("textarea", { value: text }, document.body); // without HTTPS
    field.select();
    document.execCommand("copy");
    field.remove();
  };
  content.addEventListener("click", async (event) => {
    if (!event.target.matches("button.copy")) return;
    await copy(event.target.value);
    event.target.textContent = "Copied";
  });

  // ---- Keys

  const move = (step) => {
    const some = rows().filter(goal);
    const at = some.indexOf(document.activeElement.closest("tr"));
    const to = at < 0 ? (step > 0 ? 0 : some.length - 1) : Math.max(0, Math.min(some.length - 1, at + step));
    goal(some[to])?.focus();
  };
  const select = (isRange) => {
    const box = document.activeElement.closest("tr")?.querySelector(".pick input");
    if (!box) return;
    box.checked = !box.checked;
    pick(box, isRange);
  };
  const keys = {
    "/": () => document.getElementById("go")?.focus(),
    "?": () => {
      const help = document.getElementById("keys");
      help.open = !help.open;
      help.querySelector("summary").focus();
    },
    j: () => move(1),
    k: () => move(-1),
    x: () => select(false),
    X: () => select(true),
    a: () => all("form.jobs", content).forEach((form) => pickAll(form)),
    p: () => { if (!button.hidden) toggle(); },
  };
  let isGoing = false; // after a g
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.key === "Escape") {
      for (const menu of all(".more[open], .facts details[open]")) menu.open = false;
      document.activeElement.blur();
    }
    if (event.target.matches("input:not([type=checkbox], [type=radio]), select, textarea")) return;
    const chart = event.target.closest(".axes");
    if (chart && /^Arrow(Left|Right)$/.test(event.key)) {
      event.preventDefault();
      point(chart, places.has(chart) ? places.get(chart) + (event.key === "ArrowLeft" ? -1 : 1) : Infinity);
      return;
    }
    const section = isGoing && document.querySelector(`nav.main a[data-key="${CSS.escape(event.key)}"]`);
    isGoing = event.key === "g" && !isGoing;
    const act = section ? () => section.click() : !isGoing && Object.hasOwn(keys, event.key) && keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });

  const nav = document.querySelector("nav.main");
  const current = nav.querySelector("[aria-current]");
  if (current) nav.scrollLeft = current.offsetLeft - (nav.clientWidth - current.offsetWidth) / 2;
  furnish();
  setInterval(ages, 1000);
  if (main.dataset.live) {
    button.hidden = false;
    button.addEventListener("click", toggle);
    document.addEventListener("visibilitychange", connect);
    for (const change of ["focus", "blur"]) addEventListener(change, connect);
    addEventListener("pagehide", disconnect);
    addEventListener("pageshow", (event) => { if (event.persisted) connect(); });
    connect();
  }
})();
