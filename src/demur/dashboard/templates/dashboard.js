"use strict";
for (const button of document.querySelectorAll("[data-scriptless]")) button.hidden = true;
for (const field of document.querySelectorAll("[data-submit]"))
  field.addEventListener("change", () => field.form.requestSubmit());
const token = document.querySelector("#token");
if (token && location.hash.length > 1) {
  token.value = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname + location.search);
  token.form.requestSubmit();
}
document.addEventListener("keydown", (event) => {
  const search = document.querySelector("input[type=search]");
  if (event.key !== "/" || !search || event.ctrlKey || event.metaKey || event.target.closest("input, select, textarea")) return;
  event.preventDefault();
  search.focus();
});
for (const chart of document.querySelectorAll(".chart")) {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  chart.append(tip);
  chart.addEventListener("pointerleave", () => { tip.hidden = true; });
  for (const hit of chart.querySelectorAll(".hit")) {
    const title = hit.querySelector("title");
    const said = title.textContent;
    title.remove();
    hit.addEventListener("pointerenter", () => {
      tip.textContent = said;
      tip.hidden = false;
      const box = chart.getBoundingClientRect(), at = hit.getBoundingClientRect();
      const left = at.left + at.width / 2 - box.left;
      tip.style.top = "0.5rem";
      tip.style.left = Math.max(0, left > box.width / 2 ? left - tip.offsetWidth - 12 : left + 12) + "px";
    });
  }
}
