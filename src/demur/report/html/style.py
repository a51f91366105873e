"""How every page looks.

Laws: colours follow the reader's machine on a screen and are dark on white on paper; a number and its interval are
never broken apart; on a narrow screen a plot's bars go below their names, and a wide table scrolls by itself while its
names stay in sight.
"""

from __future__ import annotations

__all__ = ["STYLE"]

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --soft: #59636e; --line: #d0d7de; --faint: #e7ebef;
  --bar: #8db4e2; --dot: #2f6db5; --mark: #ffe08a; --label: #c2410c;
  --card: #f6f8fa; --good: #1a7f37; --bad: #cf222e; --neutral: #0969da; --unsure: #9a6700; --second: #e0a458;
  --gained: #e5534b; --lost: #3f83d6; --both: #8c959f; --neither: #d8dee4; --on: #fff; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --soft: #9198a1;
  --line: #3d444d; --faint: #21262d; --bar: #2f5f93; --dot: #6ea8e5; --mark: #7a5d00; --label: #fb923c;
  --card: #151b23; --good: #3fb950; --bad: #f85149; --neutral: #58a6ff; --unsure: #d29922; --second: #9a6b23;
  --gained: #b93a34; --lost: #2f6db5; --both: #6e7681; --neither: #30363d; --on: #0d1117; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 68rem;
  margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
h2 { border-bottom: 1px solid var(--line); margin-top: 2.4rem; } h3 { margin-top: 2.5rem; font-size: 1.2rem; }
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
header h1 { margin: 0; font-size: 1.5rem; line-height: 1.3; } .kicker { margin: 0; font-size: 13px; }
.banner { border: 1px solid var(--line); border-left: 6px solid var(--tone); border-radius: 8px; background: var(--card);
  padding: .4rem 1rem; margin: 1rem 0; }
.good { --tone: var(--good); } .bad { --tone: var(--bad); } .neutral { --tone: var(--neutral); } .unsure { --tone: var(--unsure); }
.said { display: grid; grid-template-columns: 8.5rem 1fr; gap: .2rem 1rem; align-items: baseline; padding: .5rem 0; }
.said + .said { border-top: 1px solid var(--line); }
.said p { margin: 0; } .sentence { font-size: 1.05rem; font-weight: 600; } .more { color: var(--soft); font-size: 14px; }
.badge { display: inline-block; background: var(--tone); color: var(--on); border-radius: 999px; padding: 0 .65rem;
  font-size: 12px; line-height: 1.7; font-weight: 600; text-align: center; white-space: nowrap; }
.said .badge { white-space: normal; border-radius: 6px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem; margin: 1rem 0; }
.tiles > div { border: 1px solid var(--line); border-radius: 8px; padding: .6rem .9rem; }
.tiles dt { color: var(--soft); font-size: 13px; } .tiles dd { margin: 0; font-size: 12.5px; white-space: pre-line; }
.tiles .figure { font-size: 1.45rem; font-weight: 600; line-height: 1.35; font-variant-numeric: tabular-nums; white-space: nowrap; }
h2 + .note, p.note { margin: -.4rem 0 .8rem; } .scroll + .note { margin-top: -1rem; }
.words { text-align: left; } td.words { white-space: normal; overflow-wrap: anywhere; } .facts td { white-space: normal; text-align: left; } .facts td:nth-child(2) { font-weight: 600; }
.spaced { grid-template-columns: minmax(2rem, max-content) max-content minmax(8rem, 1fr) max-content; line-height: 24px; }
.spaced .track, .spaced .axis { grid-column: 3; }
.spaced .value { grid-column: 4; text-align: right; padding-left: .6rem; }
.spaced .name { max-width: 16rem; } .size { grid-column: 2; text-align: right; color: var(--soft);
  font-size: 12px; font-variant-numeric: tabular-nums; padding: 0 .6rem; }
.bars .head { color: var(--soft); font-size: 12px; }
.zero { stroke: var(--soft); } .second.bar { fill: var(--second); }
.dot { fill: var(--soft); } .reliability .dot { fill: var(--dot); } .dot.more { fill: var(--bad); } .dot.fewer { fill: var(--neutral); }
.whisker.more { stroke: var(--bad); stroke-width: 2; } .whisker.fewer { stroke: var(--neutral); stroke-width: 2; }
.flips { display: grid; grid-template-columns: max-content minmax(14rem, 1fr); gap: 0 2.5rem; align-items: center; }
.square td { font-size: 1.15rem; font-weight: 600; text-align: center; } .square th { white-space: nowrap; vertical-align: middle; }
.square thead th { text-align: center; } .square tr { border: 0; } .square thead td { border: 0; }
.square tbody td { border: 3px solid var(--paper); border-bottom-width: 6px; background: var(--card); padding: .5rem 1.5rem; }
.square td.gained { color: var(--bad); } .square td.lost { color: var(--neutral); }
.whole { display: block; width: 100%; } .whole text { fill: #fff; font-weight: 600; font-size: 13px; }
.cell { stroke: var(--paper); stroke-width: 1; } .cell.neither + text { fill: var(--ink); }
.cell.both { fill: var(--both); } .cell.lost { fill: var(--lost); } .cell.gained { fill: var(--gained); }
.cell.neither { fill: var(--neither); }
.keys { display: flex; flex-wrap: wrap; gap: .2rem 1.4rem; list-style: none; padding: 0; margin: .6rem 0 0; font-size: 13px; }
.keys small { color: var(--soft); } .keys .key { width: .8em; height: .8em; border: 0; border-radius: 2px; vertical-align: -.05em; }
.key.both { background: var(--both); } .key.lost { background: var(--lost); } .key.gained { background: var(--gained); }
.key.neither { background: var(--neither); }
.notes { list-style: none; padding: 0; margin: 0 0 1rem; font-size: 14px; }
.notes li { border-left: 3px solid var(--line); padding: .15rem .8rem; margin: .5rem 0; }
.notes .flag { border-color: var(--unsure); } .notes .warning { border-color: var(--bad); }
.exchange { border: 1px solid var(--line); border-radius: 8px; margin: 0 0 .6rem; }
.exchange > summary { padding: .5rem .9rem; color: var(--ink); } .exchange[open] > summary { border-bottom: 1px solid var(--line); }
.exchange > :not(summary) { margin-left: .9rem; margin-right: .9rem; } .asked { color: var(--soft); }
.exchange h3 { font-size: 14px; margin-top: .8rem; margin-bottom: .2rem; } .exchange p { margin: 0; font-size: 13px; }
.exchange .fields { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; padding: 0; margin-top: .6rem;
  margin-bottom: 0; font-size: 13px; } .fields b { font-weight: 400; color: var(--soft); }
.sides { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 0 1.5rem; margin-bottom: .8rem; }
.sides > div { min-width: 0; } .evidence { font-size: 13px; color: var(--soft); margin: .3rem 0; padding-left: 1.2rem; }
.exchange mark { text-decoration: underline; text-decoration-thickness: 2px; text-underline-offset: 2px; }
code { font-size: 13px; }
@media (max-width: 36rem) {
  header h1 { font-size: 1.15rem; }
  .bars { grid-template-columns: 1fr max-content; grid-auto-flow: row; margin: 0 .5rem; }
  .bars .name, .wide .name { text-align: left; max-width: none; } .value { grid-column: 2; }
  .track, .axis { grid-column: 1 / -1; } .track { margin-bottom: .3rem; }
  th, td { padding: .3rem .4rem; }
  .tiles { grid-template-columns: 1fr 1fr; } .tiles > div { padding: .5rem .7rem; } .tiles .figure { font-size: 1.2rem; }
  .said { grid-template-columns: 1fr; justify-items: start; } .flips { grid-template-columns: 1fr; }
  .square td, .square tbody td { padding: .4rem .6rem; } .square th { white-space: normal; }
  .spaced { grid-template-columns: 1fr max-content max-content; }
  .spaced .track, .spaced .axis { grid-column: 1 / -1; grid-row: auto; }
  .spaced .name { grid-column: 1; max-width: none; } .size { grid-column: 2; }
  .spaced .value { grid-column: 3; } .bars .head { display: none; }
  .size::before { content: "n "; }
}
@media print {
  body { max-width: none; margin: 0; font-size: 10pt; } table { font-size: 8.5pt; } td small { font-size: 7.5pt; }
  th, td { padding: .15rem .35rem; } .scroll { overflow: visible; } h2, h3, h4, caption { break-after: avoid; }
  tr, .exchange, .tiles, .banner { break-inside: avoid; }
  .bar, .dot, .cell, .key, .badge, .banner, mark { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  details::details-content { content-visibility: visible; block-size: auto; }
}
"""
