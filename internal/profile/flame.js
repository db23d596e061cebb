"use strict";
(() => {
  const margin = 10, inner = 1180, charWidth = 7.25;
  const by = (id) => document.getElementById(id);
  const frames = Array.from(document.querySelectorAll("#frames > g"), (g) => {
    const [title, rect, text] = g.children;
    return {
      g, rect, text, x: Number(g.dataset.x), w: Number(g.dataset.w), d: Number(g.dataset.d),
      name: title.textContent.split("\n")[0], about: title.textContent.replace(/\n/g, " · "),
    };
  });
  const root = frames[0], legend = by("details").textContent;
  let zoomed = root;

  function place(f, x, w) {
    f.g.style.display = "";
    f.rect.setAttribute("x", x.toFixed(2));
    f.rect.setAttribute("width", w.toFixed(2));
    f.text.setAttribute("x", (x + 3).toFixed(2));
    f.text.textContent = label(f.name, Math.floor((w - 6) / charWidth));
  }

  function label(name, room) {
    let chars = Array.from(name);
    if (chars.length > room) {
      const end = name.search(/[([<]/);
      chars = Array.from(name.slice(name.slice(0, end < 0 ? name.length : end).lastIndexOf("/") + 1));
    }
    if (chars.length <= room) return chars.join("");
    return room < 3 ? "" : chars.slice(0, room - 1).join("") + "…";
  }

  function zoom(to) {
    zoomed = to;
    for (const f of frames) {
      const below = f.d < to.d && f.x <= to.x && f.x + f.w >= to.x + to.w;
      const inside = f.d >= to.d && f.x >= to.x && f.x + f.w <= to.x + to.w;
      f.g.classList.toggle("under", below);
      if (below) place(f, margin, inner);
      else if (inside) place(f, margin + inner * (f.x - to.x) / to.w, inner * f.w / to.w);
      else f.g.style.display = "none";
    }
    by("reset").textContent = to === root ? "" : "Reset zoom";
  }

  function mark(expression) {
    let found = () => false;
    if (expression) {
      try {
        const re = new RegExp(expression, "i");
        found = (f) => re.test(f.name);
      } catch {
        found = (f) => f.name.includes(expression);
      }
    }
    // A function inside another that was found is counted with it.
    let sum = 0, end = -1;
    const all = frames.filter((f) => f !== root && found(f)).sort((a, b) => a.x - b.x || b.w - a.w);
    for (const f of frames) f.g.classList.remove("found");
    for (const f of all) {
      f.g.classList.add("found");
      if (f.x >= end) {
        sum += f.w;
        end = f.x + f.w;
      }
    }
    by("matched").textContent = expression ? "found: " + (100 * sum / root.w).toFixed(2) + "%" : "";
    by("search").textContent = expression ? "Clear search" : "Search";
  }

  function search() {
    mark(by("matched").textContent ? "" : prompt("Search for functions (a regular expression)") || "");
  }

  for (const f of frames) {
    f.g.addEventListener("click", () => zoom(f));
    f.g.addEventListener("mouseenter", () => { by("details").textContent = f.about; });
    f.g.addEventListener("mouseleave", () => { by("details").textContent = legend; });
  }
  by("reset").addEventListener("click", () => zoom(root));
  by("search").addEventListener("click", search);
  document.addEventListener("keydown", (e) => {
    if (e.key === "Escape") {
      zoom(root);
      mark("");
    } else if (e.key === "/" || (e.key === "f" && (e.ctrlKey || e.metaKey))) {
      e.preventDefault();
      search();
    } else if (e.key === "Backspace" && zoomed !== root) {
      zoom(frames.findLast((f) => f.d === zoomed.d - 1 && f.x <= zoomed.x));
    }
  });
  mark("");
})();
