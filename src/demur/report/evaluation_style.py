"""How the page of an evaluation looks.

Laws: colours follow the reader's machine on a screen and are dark on white on paper; a number and its interval are
never broken apart; on a narrow screen a plot's bars go below their names, and a wide table scrolls by itself while its
names stay in sight.
"""

from __future__ import annotations

__all__ = ["STYLE"]

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --soft: #59636e; --line: #d0d7de; --faint: #e7ebef;
  --bar: #8db4e2; --dot: #2f6db5; --mark: #ffe08a; --label: #c2410c; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --soft: #9198a1;
  --line: #3d444d; --faint: #21262d; --bar: #2f5f93; --dot: #6ea8e5; --mark: #7a5d00; --label: #fb923c; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 68rem;
  margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
h2 { border-bottom: 1px solid var(--line); margin-top: 3rem; } h3 { margin-top: 2.5rem; font-size: 1.2rem; }
h4 { margin: 2rem 0 .5rem; } .soft, .note { color: var(--soft); }
.scroll { position: relative; overflow-x: auto; margin: .5rem 0 1.5rem; }
table { border-collapse: collapse; font-size: 14px; line-height: 1.35; overflow-wrap: normal; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; white-space: nowrap; }
th, td { padding: .3rem .6rem; text-align: right; vertical-align: top; }
td { font-variant-numeric: tabular-nums; white-space: nowrap; }
td small { display: block; color: var(--soft); font-size: 12px; }
thead th { font-weight: 400; color: var(--soft); vertical-align: bottom; } tr { border-bottom: 1px solid var(--line); }
th:first-child { position: sticky; left: 0; background: var(--paper); text-align: left; padding-left: 0; }
tbody th { font-weight: 400; min-width: 5rem; max-width: 14rem; overflow-wrap: anywhere; }
.star { position: absolute; }
.groups { border-bottom: 0; } .groups th { text-align: center; color: var(--ink); border-left: 1px solid var(--line); }
figure { margin: 0 0 1.5rem; break-inside: avoid; } figcaption { font-weight: 600; font-size: 14px; padding-bottom: .3rem; }
.note { display: block; font-weight: 400; font-size: 13px; }
.beside { display: flex; flex-wrap: wrap; gap: 0 2rem; align-items: flex-start; } .beside > * { max-width: 100%; }
.abreast { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 0 2rem;
  align-items: start; }
.wide { max-width: 44rem; }
.bars { display: grid; grid-template-columns: minmax(2rem, max-content) minmax(6rem, 1fr) max-content; column-gap: .5rem;
  grid-auto-flow: dense; align-items: center; font-size: 13px; line-height: 22px; }
.name { grid-column: 1; } .track, .axis { grid-column: 2; } .value { grid-column: 3; }
.bars .name { text-align: right; max-width: 7.5rem; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.wide .name { max-width: 14rem; }
.bars .value { font-variant-numeric: tabular-nums; white-space: nowrap; }
.bars small { color: var(--soft); font-size: 12px; }
.track, .axis { display: block; width: 100%; overflow: visible; }
svg text { font-size: 12px; fill: var(--soft); } .reliability { display: block; max-width: 100%; height: auto; }
.grid { stroke: var(--faint); } .ideal { stroke: var(--soft); stroke-dasharray: 4 4; }
.bar { fill: var(--bar); } .dot { fill: var(--dot); } .whisker { stroke: var(--ink); stroke-width: 1.5; }
.label { stroke: var(--label); stroke-width: 3; }
.key { display: inline-block; height: .9em; border-left: 3px solid var(--label); margin-right: .4em; vertical-align: -.1em; }
details { margin: 0 0 1.5rem; } summary { cursor: pointer; color: var(--soft); padding: .2rem 0; }
pre { white-space: pre-wrap; border-left: 3px solid var(--line); padding-left: .8rem; margin: .5rem 0; font-size: 13px; }
mark { background: var(--mark); color: inherit; } article { break-inside: avoid; margin-bottom: 1.5rem; }
article p { margin: 0; } article ul { margin: .3rem 0; }
@media (max-width: 36rem) {
  .bars { grid-template-columns: 1fr max-content; grid-auto-flow: row; margin: 0 .5rem; }
  .bars .name, .wide .name { text-align: left; max-width: none; } .value { grid-column: 2; }
  .track, .axis { grid-column: 1 / -1; } .track { margin-bottom: .3rem; }
  th, td { padding: .3rem .4rem; }
}
@media print {
  body { max-width: none; margin: 0; font-size: 10pt; } table { font-size: 8.5pt; } td small { font-size: 7.5pt; }
  th, td { padding: .15rem .35rem; } .scroll { overflow: visible; } h2, h3, h4, caption { break-after: avoid; }
  tr { break-inside: avoid; } .bar, .dot, mark { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  details::details-content { content-visibility: visible; block-size: auto; }
}
"""
