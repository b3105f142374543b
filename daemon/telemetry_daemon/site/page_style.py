"""The page's stylesheet, and the policy that lets a browser load this stylesheet and nothing else."""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --ground: #f4f6f8; --card: #ffffff; --text: #1c2127; --dim: #66707b; --line: #e2e6ea; --track: #e7ebef;
  --accent: #2b6cd4; --good: #18794e; --warning: #8f5a00; --bad: #c4302b;
  --good-ground: #e3f4ea; --quiet-ground: #eceff2; --warning-ground: #fbefd5; --bad-ground: #fde7e5;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #0e1216; --card: #161b21; --text: #e4e8ec; --dim: #8c96a1; --line: #262d35; --track: #2a323b;
    --accent: #639df5; --good: #56c98a; --warning: #e2b04a; --bad: #ff7b72;
    --good-ground: #14301f; --quiet-ground: #232a32; --warning-ground: #35290f; --bad-ground: #3b1a18;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 84rem; padding: 1.5rem; background: var(--ground); color: var(--text);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif;
}
header { display: flex; flex-wrap: wrap; gap: .25rem 1.5rem; align-items: baseline; justify-content: space-between; }
h1 { margin: 0; font-size: 1.6rem; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { margin: 2rem 0 .6rem; font-size: .8rem; font-weight: 600; letter-spacing: .07em; text-transform: uppercase;
  color: var(--dim); }
.inventory { margin: .2rem 0 0; color: var(--dim); overflow-wrap: anywhere; }
.dim, .absent { color: var(--dim); }
.banner { margin: 1rem 0 0; padding: .6rem .9rem; border-radius: .5rem; background: var(--warning-ground);
  color: var(--warning); font-weight: 600; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(10.5rem, 1fr)); gap: .75rem; margin: 1.25rem 0 0; }
.tile { padding: .8rem 1rem; border: 1px solid var(--line); border-radius: .6rem; background: var(--card); }
.tile dt { font-size: .8rem; color: var(--dim); }
.tile dd { margin: 0; font-size: 1.35rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.tile .note { font-size: .8rem; font-weight: 400; color: var(--dim); }
.troubles { margin: 1.25rem 0 0; padding: 0; list-style: none; }
.troubles li { margin: .5rem 0; padding: .7rem 1rem; border-left: 4px solid var(--bad); border-radius: .4rem;
  background: var(--bad-ground); overflow-wrap: anywhere; }
.troubles strong { color: var(--bad); }
table { width: 100%; border-collapse: separate; border-spacing: 0; border: 1px solid var(--line);
  border-radius: .6rem; background: var(--card); font-variant-numeric: tabular-nums; }
th, td { padding: .55rem .9rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: middle; }
tbody tr:last-child > * { border-bottom: 0; }
thead th { font-size: .8rem; font-weight: 600; color: var(--dim); white-space: nowrap; }
tbody th { font-weight: 600; white-space: nowrap; }
tbody th small { display: block; font-weight: 400; color: var(--dim); white-space: normal; overflow-wrap: anywhere; }
td.number { white-space: nowrap; }
td.wide { overflow-wrap: anywhere; }
.bar { display: block; width: 100%; min-width: 5.5rem; height: 4px; margin-top: .25rem; border-radius: 2px;
  background: var(--track); }
.bar rect { fill: var(--accent); }
.state { display: inline-block; padding: .05rem .6rem; border-radius: 1rem; font-size: .85rem; font-weight: 600;
  white-space: nowrap; }
.good { background: var(--good-ground); color: var(--good); }
.quiet { background: var(--quiet-ground); color: var(--dim); }
.warning { background: var(--warning-ground); color: var(--warning); }
.bad { background: var(--bad-ground); color: var(--bad); }
.problem { display: block; color: var(--warning); font-size: .85rem; overflow-wrap: anywhere; }
.empty { padding: 1.5rem; border: 1px dashed var(--line); border-radius: .6rem; color: var(--dim); text-align: center; }
footer { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin-top: 2rem; font-size: .9rem; color: var(--dim); }
a { color: var(--accent); text-decoration: none; }
a:hover { text-decoration: underline; }
code { font: .9em ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
@media (max-width: 62rem) {
  body { padding: 1rem; }
  table, tbody { display: block; border: 0; background: none; }
  thead { display: none; }
  tbody tr { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: .5rem 1rem; margin-bottom: .75rem;
    padding: .8rem 1rem; border: 1px solid var(--line); border-radius: .6rem; background: var(--card); }
  th, td { padding: 0; border: 0; }
  td.wide, td.full { grid-column: 1 / -1; }
  td.number { white-space: normal; }
  td::before { content: attr(data-heading); display: block; font-size: .75rem; color: var(--dim); }
  td.state-cell { text-align: right; }
  td.state-cell::before { content: none; }
}
"""

# Of STYLE, in Base64; written down, since hashlib would load OpenSSL into every daemon. tests/site/test_page.py computes it.
_HASH = "Xf7J+6XDDjTNffZWI1mSCRjJGm3lny72HU1a0LQBi9M="
PAGE_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
