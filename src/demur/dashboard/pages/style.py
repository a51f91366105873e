"""How the dashboard looks, and what its one small script adds.

Laws: the style of every page holds here too; nothing is loaded from elsewhere; without the script every page says and does the same,
only less comfortably; series differ by dashes as well as by colour; colours follow the reader's machine.
"""

from __future__ import annotations

from demur.report.html.style import STYLE

__all__ = ["DASHBOARD_SCRIPT", "DASHBOARD_STYLE"]

_OWN = """
:root { --s0: #1f6feb; --s1: #bc4c00; --s2: #1a7f37; --s3: #8250df; --s4: #57606a; --allow: #afb8c1; --log: #54aeff;
  --warn: #d4a72c; --redact: #8250df; --review: #e16f24; --deny: #cf222e; --field: #fff; --link: #0550ae; }
@media screen and (prefers-color-scheme: dark) { :root { --s0: #58a6ff; --s1: #f0883e; --s2: #3fb950; --s3: #bc8cff;
  --s4: #b1bac4; --allow: #484f58; --log: #388bfd; --warn: #bb8009; --redact: #8957e5; --review: #db6d28; --deny: #da3633;
  --field: #0d1117; --link: #79c0ff; --on: #0d1117; } }
body { max-width: none; margin: 0; padding: 0; }
a { color: var(--link); text-underline-offset: 2px; } .num { font-variant-numeric: tabular-nums; }
:focus-visible { outline: 2px solid var(--neutral); outline-offset: 2px; border-radius: 3px; }
.skip { position: absolute; left: -999rem; } .skip:focus { left: 1rem; top: .5rem; z-index: 9; background: var(--paper); padding: .3rem .8rem; }
.bar-top { border-bottom: 1px solid var(--line); background: var(--card); }
.bar-top > div, main, .foot { max-width: 84rem; margin: 0 auto; padding: 0 1.25rem; }
.bar-top > div { display: flex; flex-wrap: wrap; align-items: center; gap: 0 1.25rem; min-height: 3.25rem; }
.brand { font-weight: 700; font-size: 1.05rem; color: var(--ink); text-decoration: none; letter-spacing: -.01em; }
.brand small { font-weight: 400; color: var(--soft); margin-left: .4rem; letter-spacing: 0; }
nav.pages ul { display: flex; flex-wrap: wrap; gap: 0 .2rem; list-style: none; margin: 0; padding: 0; }
nav.pages a { display: block; white-space: nowrap; padding: .85rem .6rem .7rem; color: var(--soft); text-decoration: none; border-bottom: 3px solid transparent; }
nav.pages a:hover { color: var(--ink); } nav.pages a[aria-current] { color: var(--ink); font-weight: 600; border-color: var(--neutral); }
.leave { margin-left: auto; } main { padding-top: 1.25rem; padding-bottom: 2rem; }
.foot { color: var(--soft); font-size: 13px; padding-bottom: 2rem; }
.top { display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; align-items: end; justify-content: space-between; margin-bottom: 1rem; }
.top h1 { font-size: 1.45rem; line-height: 1.25; margin: 0; } .top p { margin: 0; color: var(--soft); font-size: 14px; }
.aside { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: end; } .aside .filters label { display: flex; align-items: center; gap: .5rem; }
.aside .filters label select { margin: 0; }
.panels { display: grid; grid-template-columns: repeat(12, minmax(0, 1fr)); gap: 1rem; margin: 1rem 0; }
.panel { grid-column: span 12; border: 1px solid var(--line); border-radius: 8px; padding: .8rem 1rem 1rem; min-width: 0; background: var(--paper); }
.panel h2 { font-size: 1rem; margin: 0 0 .6rem; border: 0; } .panel .lead { color: var(--soft); font-size: 13px; margin: -.5rem 0 .7rem; }
.panel h3 { font-size: .95rem; margin: 1.1rem 0 .3rem; } .panel .scroll { margin: 0; } .panel table { width: 100%; }
.panel details { margin: .6rem 0 0; } .panel figure { margin: 0; } .panel .bars { margin: .3rem 0; }
.panel td.words { overflow-wrap: break-word; } .half { grid-column: span 6; } .third { grid-column: span 4; } .two-thirds { grid-column: span 8; }
@media (max-width: 60rem) { .half, .third, .two-thirds { grid-column: span 12; } }
.filters { display: flex; flex-wrap: wrap; gap: .6rem .8rem; align-items: end; }
.filters.boxed { gap: .6rem .5rem; margin-bottom: 1rem; border: 1px solid var(--line); border-radius: 8px; background: var(--card); padding: .8rem 1rem; }
.filters label, .sides label, .login label { display: block; font-size: 12.5px; color: var(--soft); }
input, select, button { font: inherit; font-size: 14px; color: var(--ink); background: var(--field); border: 1px solid var(--line);
  border-radius: 6px; padding: .35rem .6rem; min-height: 2.3rem; max-width: 100%; }
.filters label input, .filters label select, .sides label input, .sides label select { display: block; margin-top: .15rem; }
input[type=search] { width: 12rem; } .filters.boxed select { max-width: 8.2rem; } input[type=checkbox] { min-height: 0; margin: 0 .4rem 0 0; width: 1.05rem; height: 1.05rem; vertical-align: -.15rem; }
@media (min-width: 60rem) { .filters.boxed input[type=search] { width: 10.4rem; } .filters.boxed input[type=date] { width: 8.7rem; padding-right: .3rem; } }
.filters label.tick { display: flex; align-items: center; min-height: 2.3rem; font-size: 14px; color: var(--ink); }
.filters label.tick input { display: inline-block; margin-top: 0; }
button, .button { background: var(--neutral); border-color: var(--neutral); color: var(--on); font-weight: 600; cursor: pointer; text-decoration: none; }
.button { display: inline-block; border: 1px solid; border-radius: 6px; padding: .35rem .9rem; font-size: 14px; min-height: 2.3rem; line-height: 1.5; }
button.quiet, .button.quiet { background: none; color: var(--soft); border-color: var(--line); font-weight: 400; }
button[hidden] { display: none; }
.ranges { display: inline-flex; border: 1px solid var(--line); border-radius: 6px; overflow: hidden; }
.ranges a { padding: .4rem .75rem; font-size: 14px; color: var(--soft); text-decoration: none; border-left: 1px solid var(--line); }
.ranges a:first-child { border-left: 0; } .ranges a[aria-current] { background: var(--faint); color: var(--ink); font-weight: 600; }
.chart { display: grid; grid-template-columns: 2.9rem minmax(0, 1fr); position: relative; }
.chart .axes { grid-column: 1 / -1; display: flex; justify-content: space-between; gap: 1rem; margin: 0 0 .35rem; font-size: 11.5px; line-height: 1.3; color: var(--soft); }
.chart svg { display: block; width: 100%; overflow: visible; } .chart .below { grid-column: 2; }
.chart text { font-size: 11.5px; fill: var(--soft); } .hit { fill: transparent; } .hit:hover { fill: var(--ink); fill-opacity: .06; }
.line { fill: none; stroke-width: 2; vector-effect: non-scaling-stroke; stroke-linejoin: round; } .band { fill-opacity: .1; stroke-opacity: .35; stroke-width: 1; vector-effect: non-scaling-stroke; }
.alone { stroke-width: 1.5; stroke-opacity: .45; vector-effect: non-scaling-stroke; }
.band.s0, .alone.s0 { stroke: var(--s0); } .band.s1, .alone.s1 { stroke: var(--s1); } .band.s2, .alone.s2 { stroke: var(--s2); }
.band.s3, .alone.s3 { stroke: var(--s3); } .band.s4, .alone.s4 { stroke: var(--s4); }
.line.s1 { stroke-dasharray: 7 3; } .line.s2 { stroke-dasharray: 2 3; } .line.s3 { stroke-dasharray: 9 3 2 3; } .line.s4 { stroke-dasharray: 4 4; }
.line.s0 { stroke: var(--s0); } .line.s1 { stroke: var(--s1); } .line.s2 { stroke: var(--s2); } .line.s3 { stroke: var(--s3); } .line.s4 { stroke: var(--s4); }
.s0 { fill: var(--s0); } .s1 { fill: var(--s1); } .s2 { fill: var(--s2); } .s3 { fill: var(--s3); } .s4 { fill: var(--s4); }
svg .line { fill: none; }
.e-allow { fill: var(--allow); } .e-log { fill: var(--log); } .e-warn { fill: var(--warn); } .e-redact { fill: var(--redact); }
.e-review { fill: var(--review); } .e-deny { fill: var(--deny); }
.legend { display: flex; flex-wrap: wrap; gap: .15rem 1.2rem; list-style: none; margin: .5rem 0 0; padding: 0; font-size: 13px; }
.legend svg { width: 26px; height: 10px; margin-right: .45rem; vertical-align: .05em; } .legend b { font-variant-numeric: tabular-nums; }
.legend small { color: var(--soft); font-size: 12px; }
.tip { position: absolute; z-index: 5; pointer-events: none; background: var(--paper); border: 1px solid var(--line); border-radius: 6px;
  box-shadow: 0 4px 14px rgb(0 0 0 / .18); padding: .4rem .6rem; font-size: 12.5px; white-space: pre; line-height: 1.45; font-variant-numeric: tabular-nums; }
.tag { display: inline-block; border: 1px solid var(--line); border-radius: 999px; padding: 0 .55rem; font-size: 12px; line-height: 1.6; white-space: nowrap; }
.tag.deny, .tag.fails { border-color: var(--bad); color: var(--bad); font-weight: 600; } .tag.allow, .tag.holds { border-color: var(--good); color: var(--good); }
.tag.warn, .tag.review, .tag.redact, .tag.gap, .tag.open { border-color: var(--unsure); color: var(--unsure); } .tag.log { border-color: var(--neutral); color: var(--neutral); }
table.list { width: 100%; } table.list th, table.list td { padding: .5rem .7rem; vertical-align: middle; }
table.list td, table.list thead th { text-align: left; } table.list .num { text-align: right; }
table.list th:first-child { padding-left: 0; max-width: 20rem; } table.list tbody tr:hover > * { background: var(--card); }
.list .tags { white-space: normal; min-width: 7rem; } .tags .tag { margin: .05rem .25rem .05rem 0; }
.pager { display: flex; gap: .8rem; align-items: center; margin: 1rem 0; color: var(--soft); font-size: 14px; flex-wrap: wrap; }
.empty { margin: 1rem 0; border: 1px dashed var(--line); border-radius: 8px; padding: 2.2rem 1rem; text-align: center; color: var(--soft); }
.empty h2 { border: 0; margin: 0 0 .3rem; color: var(--ink); font-size: 1.1rem; } .empty p { margin: .2rem 0; }
.empty pre { display: inline-block; max-width: 100%; text-align: left; margin: .8rem 0 0; overflow-wrap: anywhere; color: var(--ink); }
.panel .facts td:nth-child(2) { white-space: nowrap; }
.reach { color: var(--soft); font-size: 13px; margin: .6rem 0 0; }
dl.facts { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .3rem 1.2rem; margin: 0; font-size: 14px; }
dl.facts dt { color: var(--soft); } dl.facts dd { margin: 0; overflow-wrap: anywhere; } code, .mono { font-family: ui-monospace, monospace; font-size: 12.5px; }
ul.checks { list-style: none; margin: 0; padding: 0; } ul.checks li { display: grid; grid-template-columns: 6rem 6.6rem minmax(0, 1fr); gap: .1rem .8rem;
  padding: .4rem 0; border-top: 1px solid var(--faint); font-size: 14px; align-items: baseline; } ul.checks li:first-child { border: 0; }
ul.checks b { font-weight: 600; } ul.checks span:last-child { color: var(--soft); } ul.checks .tag { justify-self: start; }
.panel pre { max-height: 28rem; overflow: auto; margin: .4rem 0; }
.login { max-width: 24rem; margin: 12vh auto 0; padding: 0 1.25rem; } .login input { width: 100%; margin: .3rem 0 .8rem; } .login button { width: 100%; }
.sides fieldset { border: 1px solid var(--line); border-radius: 8px; padding: .6rem .9rem .9rem; display: flex; flex-wrap: wrap; gap: .6rem; min-width: 0; margin: 0; }
.sides + .filters { margin: .8rem 0 0; } .sides legend { font-weight: 600; font-size: 14px; padding: 0 .3rem; } .sides { gap: .8rem 1rem; }
.tiles .figure { white-space: normal; } .tiles { margin: 1rem 0; grid-template-columns: repeat(auto-fit, minmax(10rem, 1fr)); } .tiles > div { background: var(--paper); }
.rank { display: grid; grid-template-columns: minmax(5rem, max-content) minmax(4rem, 1fr) max-content; gap: .3rem .8rem; align-items: center; font-size: 13.5px; margin: 0; }
.rank dt { overflow-wrap: anywhere; max-width: 15rem; } .rank dd { margin: 0; } .rank svg { display: block; width: 100%; height: 14px; }
.rank .num { text-align: right; } .rank rect { fill: var(--s0); }
@media (max-width: 36rem) {
  .bar-top > div, main, .foot { padding-left: .8rem; padding-right: .8rem; } nav.pages { width: 100%; overflow-x: auto; order: 3; }
  nav.pages ul { flex-wrap: nowrap; } nav.pages a { padding: .5rem .38rem .4rem; font-size: 14px; } .bar-top > div { padding-top: .6rem; }
  .panel { padding: .7rem .75rem .8rem; } .filters label, .filters label input, .filters label select, input[type=search] { width: 100%; }
  .filters label { flex: 1 1 8.5rem; min-width: 0; } .filters label.wide-field { flex-basis: 100%; }
  .filters label.tick input { width: 1.05rem; } .sides label { flex: 1 1 8.5rem; min-width: 0; } .sides label:has(select) { flex-basis: 100%; }
  .sides label input, .sides label select { width: 100%; } .filters.boxed select { max-width: none; } .aside, .aside .filters { width: 100%; } .aside .filters label select { flex: 1; }
  ul.checks li { grid-template-columns: max-content 1fr; } ul.checks li span:last-child { grid-column: 1 / -1; }
  dl.facts { grid-template-columns: 1fr; gap: 0; } dl.facts dd { margin-bottom: .5rem; }
  table.list thead { position: absolute; left: -999rem; } table.list, table.list tbody { display: block; }
  table.list tr { display: flex; flex-wrap: wrap; gap: .15rem .9rem; padding: .55rem 0; align-items: baseline; }
  table.list th:first-child { flex: 1 0 40%; position: static; padding: 0; max-width: none; font-weight: 600; }
  table.list td { padding: 0; white-space: normal; min-width: 0; } table.list td.none { display: none; }
  table.list td[data-head]::before { content: attr(data-head) " "; color: var(--soft); font-size: 12px; }
  table.list td:last-child.num:not([data-head]) { margin-left: auto; } table.list td.words { flex-basis: 100%; color: var(--soft); }
  table.list td.num:has(small) { flex-basis: 100%; text-align: left; }
  .below text:nth-child(even) { display: none; }
  table.list td small { display: inline; margin-left: .3rem; } .rank { grid-template-columns: minmax(4rem, 9rem) 1fr max-content; }
}
"""
DASHBOARD_STYLE = STYLE + _OWN

DASHBOARD_SCRIPT = """"use strict";
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
"""
