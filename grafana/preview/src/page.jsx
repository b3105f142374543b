// The page: one dashboard, laid out on Grafana's grid, in Grafana's own theme.
import '@fontsource/inter/400.css';
import '@fontsource/inter/500.css';
import 'uplot/dist/uPlot.min.css';

import { createTheme, dateTime, ThemeContext } from '@grafana/data';
import { GlobalStyles, PanelChrome, PortalContainer } from '@grafana/ui';
import { createRoot } from 'react-dom/client';

import { preparedFrames } from './fields.mjs';
import { regionsOf } from './marks.mjs';
import { framesOf } from './frames.mjs';
import { Visualization } from './panels.jsx';

const theme = createTheme({ colors: { mode: 'dark' } });
const CELL = 30;
const GAP = 8;
const MARGIN = 16;
const HEAD = 64;

window.complaints = [];

// Draws a dashboard. Returns its height, and the height of its first sections.
window.drawDashboard = async ({ board, panels: shown, answers, annotations, range, choices, sections, width }) => {
  await Promise.all(['400 14px Inter', '500 14px Inter'].map((font) => document.fonts.load(font)));
  const panels = await Promise.all(
    shown.map(async (panel) => ({ panel, frames: panel.type === 'row' ? [] : await preparedFrames(panel, framesOf(answers[panel.id]), theme) }))
  );
  const cells = Math.max(...shown.map(({ gridPos }) => gridPos.y + gridPos.h));
  const regions = annotations.flatMap(regionsOf);
  const height = HEAD + cells * (CELL + GAP) + MARGIN;
  createRoot(document.getElementById('root')).render(
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <div style={{ position: 'relative', width, height, background: theme.colors.background.canvas }}>
        <Head board={board} choices={choices} range={range} />
        {panels.map(({ panel, frames }) => (
          <Placed key={panel.id} panel={panel} width={width}>
            {(size) => <Panel panel={panel} frames={frames} regions={regions} range={timeRange(range)} size={size} />}
          </Placed>
        ))}
      </div>
      <PortalContainer />
    </ThemeContext.Provider>
  );
  await new Promise((resolve) => setTimeout(resolve, 300));
  const next = shown.filter(({ type }) => type === 'row')[sections];
  return { height, headHeight: next ? HEAD + next.gridPos.y * (CELL + GAP) : height };
};

function timeRange({ from, to }) {
  const [begin, end] = [dateTime(from * 1000), dateTime(to * 1000)];
  return { from: begin, to: end, raw: { from: begin, to: end } };
}

function Head({ board, choices, range }) {
  const variables = board.templating.list.filter(({ name }) => name !== 'datasource');
  return (
    <div style={{ position: 'absolute', left: MARGIN, top: 12, right: MARGIN, display: 'flex', alignItems: 'center', gap: 12 }}>
      <div style={{ fontSize: 18, fontWeight: 500, color: theme.colors.text.primary, marginRight: 12 }}>{board.title}</div>
      {variables.map(({ name, label }) => (
        <div key={name} style={{ display: 'flex', fontSize: 12, lineHeight: '28px' }}>
          <span style={{ padding: '0 8px', background: theme.colors.background.secondary, color: theme.colors.text.primary }}>{label}</span>
          <span style={{ padding: '0 8px', border: `1px solid ${theme.colors.border.medium}`, color: theme.colors.text.secondary }}>
            {choices[name] ?? 'All'}
          </span>
        </div>
      ))}
      <div style={{ marginLeft: 'auto', fontSize: 12, color: theme.colors.text.secondary }}>Last {(range.to - range.from) / 3600} hours · simulated fleet</div>
    </div>
  );
}

function Placed({ panel, width, children }) {
  const { x, y, w, h } = panel.gridPos;
  const column = (width - 2 * MARGIN + GAP) / 24;
  const size = { width: Math.floor(w * column - GAP), height: h * CELL + (h - 1) * GAP };
  const place = { position: 'absolute', left: MARGIN + x * column, top: HEAD + y * (CELL + GAP), ...size };
  return <div style={place}>{children(size)}</div>;
}

function Panel({ panel, frames, regions, range, size }) {
  if (panel.type === 'row') {
    return <div style={{ fontSize: 16, fontWeight: 500, lineHeight: '30px', color: theme.colors.text.primary }}>{panel.collapsed ? `› ${panel.title} (${panel.panels.length} panel${panel.panels.length === 1 ? '' : 's'})` : `⌄ ${panel.title}`}</div>;
  }
  return (
    <PanelChrome title={panel.title} description={panel.description} width={size.width} height={size.height} padding={panel.type === 'table' ? 'none' : 'md'}>
      {(width, height) => <Visualization panel={panel} frames={frames} regions={regions} range={range} width={width} height={height} />}
    </PanelChrome>
  );
}
