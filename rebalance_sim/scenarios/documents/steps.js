root => {
  // See steps.py; a message that got lost has arrives_ms null.
  const rows = JSON.parse(root.querySelector("script[type='application/json']").textContent);
  const make = (tag, name, text) => {
    const one = document.createElement(tag);
    if (name) one.className = name;
    if (text !== undefined) one.textContent = text;
    return one;
  };
  const entries = rows.entries.map(([step, at, role, actor, to, text, arrives, rebalances]) =>
    ({ step, at, role: rows.texts[role], actor: rows.texts[actor], to: rows.texts[to],
       text: rows.texts[text], arrives, rebalances }));
  const words = one => one.role === "message" ? `${one.actor} → ${one.to}  ${one.text}` +
    (one.arrives === null ? "  (not received)" : "") : `${one.actor} ${one.text}`.trim();
  // Whether it names orders-2, as "orders-0,1,2" and "orders-0..59" do; other text is looked for.
  const names = (said, text) => {
    const [, topic, number] = /^(.+)-(\d+)$/.exec(text) || [];
    if (!topic) return said.includes(text);
    return [...said.matchAll(/([\w.:-]+)-(\d[\d,.]*)/g)].some(([, of, list]) =>
      of.replace(/^-/, "") === topic && [...list.matchAll(/(\d+)(?:\.\.(\d+))?/g)].some(
        ([, first, last = first]) => +first <= +number && +number <= +last));
  };
  const seconds = ms => (ms / 1000).toFixed(3) + " s";
  const bar = make("div", "bar"), jumps = make("div", "bar"), filters = make("div", "bar");
  const slider = make("input"), time = make("output");
  slider.type = "range"; slider.min = 0; slider.setAttribute("aria-label", "step of the run");
  const group = make("div", "group"), members = make("div", "members");
  const flight = make("div", "flight"), log = make("ol", "log");
  const who = make("select"), kind = make("select"), search = make("input");
  who.append(new Option("all members", ""), ...rows.clients.map(name => new Option(name)));
  kind.append(...[["all kinds", ""], ["messages", "message"], ["changes of state", "change"],
    ["faults", "fault"], ["violations", "violation"]].map(([name, value]) => new Option(name, value)));
  search.type = "search"; search.placeholder = "partition or word";
  let shown = entries, at = 0;
  const state = (name, step) => {
    const found = {};
    for (const [since, fields] of rows.states[name] || []) {
      if (since > step) break;
      for (const [field, text] of Object.entries(fields)) found[field] = rows.texts[text];
    }
    return found;
  };
  const listed = fields => {
    const list = make("dl");
    for (const [name, text] of Object.entries(fields)) if (text && name !== "look")
      list.append(make("dt", "", name), make("dd", "", text));
    return list;
  };
  const show = () => {
    const one = shown[at];
    slider.max = Math.max(0, shown.length - 1); slider.value = at;
    members.replaceChildren(); log.replaceChildren(); group.replaceChildren();
    if (!one) { time.textContent = "nothing matches"; flight.textContent = ""; return; }
    time.textContent = `${seconds(one.at)}, step ${one.step.toLocaleString("en")}`;
    for (const name of rows.groups) {
      const fields = Object.entries(state("group " + name, one.step)).map(([k, v]) => `${k} ${v}`);
      group.append(make("div", "", `${name}: ${fields.join(", ") || "not there yet"}`));
    }
    for (const name of rows.clients) if (!who.value || who.value === name) {
      const fields = state("client " + name, one.step);
      const card = make("div", "member " + (fields.look || "gone"));
      if (one.actor === name || one.to === name) card.classList.add("now");
      const { state: word = "not started", look, ...rest } = fields;
      card.append(make("b", "", name), ` ${word}`, listed(rest));
      members.append(card);
    }
    const going = entries.filter(m => m.role === "message" && m.step <= one.step &&
      (m.arrives === null ? m.at === one.at : m.arrives > one.at));
    const more = going.length > 6 ? `; and ${going.length - 6} more` : "";
    flight.textContent = going.length
      ? "On its way: " + going.slice(0, 6).map(words).join("; ") + more : "";
    for (let n = Math.max(0, at - 8); n < Math.min(shown.length, at + 5); n++) {
      const line = make("li", shown[n].role, `${seconds(shown[n].at)}  ${words(shown[n])}`);
      if (n === at) line.classList.add("now");
      line.onclick = () => { at = n; show(); };
      log.append(line);
    }
  };
  const move = by => { at = Math.min(shown.length - 1, Math.max(0, at + by)); show(); };
  const button = (text, action, title) => {
    const one = make("button", "", text);
    one.type = "button"; one.title = title || text; one.onclick = action;
    return one;
  };
  const jump = (name, test) => {
    const one = button(name, () => {
      const next = shown.findIndex((entry, n) => n > at && test(entry));
      const found = next >= 0 ? next : shown.findIndex(test);
      if (found >= 0) { at = found; show(); }
    });
    one.disabled = !entries.some(test);
    return one;
  };
  const filter = () => {
    const step = shown[at] ? shown[at].step : 0, text = search.value.toLowerCase();
    shown = entries.filter(one => (!who.value || one.actor === who.value || one.to === who.value) &&
      (!kind.value || one.role === kind.value) && names(words(one).toLowerCase(), text));
    const next = shown.findIndex(one => one.step >= step);
    at = next < 0 ? Math.max(0, shown.length - 1) : next;
    show();
  };
  slider.oninput = () => { at = Number(slider.value); show(); };
  who.onchange = kind.onchange = search.oninput = filter;
  bar.append(button("‹", () => move(-1), "one back"), slider, button("›", () => move(1), "one on"), time);
  jumps.append("Next:", jump("fault", one => one.role === "fault"),
    jump("rebalance", one => one.rebalances), jump("violation", one => one.role === "violation"));
  filters.append(who, kind, search);
  const control = make("div", "control");  // stays in sight while members are scrolled through
  control.append(bar, jumps, filters);
  root.append(control, group, members, flight, log);
  const first = entries.findIndex(one => one.role === "violation");
  at = Math.max(0, first < 0 ? entries.findIndex(one => one.rebalances) : first);
  show();
}
