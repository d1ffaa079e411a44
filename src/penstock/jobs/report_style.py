"""How the page of a report looks."""

from __future__ import annotations

STYLE = """
:root { --ink: #1a1f26; --paper: #fdfdfb; --faint: #6a7280; --rule: #dfe2e6; --mark: #1f6f8b; --fill: #1f6f8b33; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7ea; --paper: #14181d; --faint: #9aa3ad; --rule: #313840; --mark: #63b8d3; --fill: #63b8d333; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 120rem; color: var(--ink); background: var(--paper);
       font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0; } h2 { margin: 2.5rem 0 0; border-top: 2px solid var(--mark); padding-top: .5rem; }
h3 { margin: 2rem 0 .5rem; font-size: 1.05rem; } p { margin: .3rem 0; } a { color: var(--mark); }
nav { margin-top: 1rem; }
.parts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 0 2.5rem; }
.part { min-width: 0; }
.totals { display: grid; grid-template-columns: repeat(auto-fit, minmax(8rem, 1fr)); gap: .5rem; margin: 1rem 0 0; }
.totals div { border: 1px solid var(--rule); border-radius: .4rem; padding: .4rem .7rem; }
dt { color: var(--faint); font-size: .85rem; } dd { margin: 0; font-size: 1.3rem; font-variant-numeric: tabular-nums; }
figure { margin: 0; } figcaption { color: var(--faint); font-size: .9rem; }
.plot { width: 100%; height: auto; display: block; }
.plot text { font: 10px system-ui, sans-serif; fill: var(--faint); }
.grid { stroke: var(--rule); stroke-width: 1; } .area { fill: var(--fill); }
.line { fill: none; stroke: var(--mark); stroke-width: 1.5; stroke-linejoin: round; } .bar { fill: var(--mark); }
.cell { display: block; width: 100%; min-width: 4rem; height: .8rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .5rem; border-bottom: 1px solid var(--rule); font-weight: normal;
         overflow-wrap: normal; }
code { overflow-wrap: anywhere; }
th:first-child { text-align: left; } thead th { color: var(--faint); font-size: .85rem; }
details { margin-top: .3rem; } summary { cursor: pointer; color: var(--mark); font-size: .9rem; }
details .wide { max-height: 20rem; overflow: auto; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
"""
