"use strict";
(() => {
  const root = document.documentElement;

  // the theme: what the system says, until the reader says otherwise; some browsers keep nothing for a file
  const kept = {
    get() { try { return localStorage.getItem("nescio-theme"); } catch { return null; } },
    set(theme) { try { localStorage.setItem("nescio-theme", theme); } catch { /* it holds until the page is left */ } },
  };
  const system = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const now = () => root.dataset.theme || (system.matches ? "dark" : "light");
  const say = () => {
    button.textContent = now() === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${now() === "dark" ? "light" : "dark"} colours`);
  };
  if (["light", "dark"].includes(kept.get())) root.dataset.theme = kept.get();
  button.addEventListener("click", () => {
    root.dataset.theme = now() === "dark" ? "light" : "dark";
    kept.set(root.dataset.theme);
    say();
  });
  system.addEventListener("change", say);
  button.hidden = false;
  say();

  // tables: a click on a heading sorts, numbers as numbers, what is missing last
  const key = (row, column) => {
    const cell = row.cells[column];
    const text = cell.textContent.trim();
    return { number: cell.dataset.value === undefined ? NaN : Number(cell.dataset.value), text, none: text === "–" };
  };
  const order = (a, b, way) => {
    if (a.none || b.none) return a.none - b.none;
    if (!isNaN(a.number) && !isNaN(b.number)) return way * (a.number - b.number);
    return way * a.text.localeCompare(b.text, "en", { numeric: true });
  };
  const sort = (table, head) => {
    const way = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", way === 1 ? "ascending" : "descending");
    const body = table.tBodies[0];
    const keyed = [...body.rows].map((row) => [key(row, head.cellIndex), row]);
    keyed.sort((a, b) => order(a[0], b[0], way));
    body.append(...keyed.map((pair) => pair[1]));
  };
  const copy = async (table, button) => {
    const lines = [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent.trim().replace(/\s+/g, " ")).join("\t"));
    try {
      await navigator.clipboard.writeText(lines.join("\n"));
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(table);  // ready to be copied by hand
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy table"; }, 2000);
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    for (const head of table.tHead.rows[0].cells) {
      const inside = document.createElement("button");
      inside.type = "button";
      inside.append(...head.childNodes);
      head.append(inside);
      inside.addEventListener("click", () => sort(table, head));
    }
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy table";
    button.setAttribute("aria-live", "polite");
    button.addEventListener("click", () => copy(table, button));
    table.closest(".scroll").after(button);
  }

  addEventListener("beforeprint", () => {
    for (const closed of document.querySelectorAll("details:not([open])")) closed.open = true;
  });
})();
