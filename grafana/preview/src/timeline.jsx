// State timeline and status history: these two are not in @grafana/ui, so they are drawn here from the same field settings.
import { dateTimeFormat, formattedValueToString, getFieldDisplayName } from '@grafana/data';
import { useTheme2 } from '@grafana/ui';

const AXIS = 20;
const LEGEND = 24;
const LETTER = 6.6;
const FONT = 12;

export function Timeline({ panel, frames, rows, range, width, height, merged }) {
  const theme = useTheme2();
  const page = rows.slice(0, panel.options.perPage || rows.length);
  const pages = Math.ceil(rows.length / page.length);
  const names = page.map(({ field, frame }) => getFieldDisplayName(field, frame, frames));
  const left = Math.min(Math.max(...names.map((name) => name.length)) * LETTER + 12, width / 3);
  const legend = panel.options.legend.showLegend ? legendOf(page, theme) : [];
  const plot = { left, width: width - left, height: height - AXIS - (legend.length || pages > 1 ? LEGEND : 0) };
  const line = plot.height / page.length;
  if (line < FONT) {
    window.complaints.push(`${panel.title}: ${page.length} rows of ${line.toFixed(1)} px, names overlap`);
  }
  const [from, to] = [range.from.valueOf(), range.to.valueOf()];
  const x = (time) => plot.left + ((Math.min(Math.max(time, from), to) - from) / (to - from)) * plot.width;
  const text = { fill: theme.colors.text.primary, fontSize: FONT, fontFamily: 'Inter' };
  return (
    <div style={{ width, height }}>
      <svg width={width} height={height - (legend.length || pages > 1 ? LEGEND : 0)}>
        {page.map((row, index) => (
          <g key={index}>
            <text x={plot.left - 8} y={(index + 0.5) * line + 4} textAnchor="end" {...text}>{names[index]}</text>
            {spansOf(row, merged).map(({ begin, end, color }) => (
              <rect key={begin} x={x(begin)} width={Math.max((x(end) - x(begin)) * (merged ? 1 : panel.options.colWidth ?? 0.9), 1)} y={index * line + line * 0.05}
                height={line * (panel.options.rowHeight ?? 0.9)} fill={color} fillOpacity={merged ? 0.7 : 1} />
            ))}
          </g>
        ))}
        {ticks(from, to).map((time) => (
          <text key={time} x={x(time)} y={plot.height + 16} textAnchor="middle" {...text} fill={theme.colors.text.secondary}>
            {dateTimeFormat(time, { format: 'HH:mm', timeZone: 'utc' })}
          </text>
        ))}
      </svg>
      <div style={{ display: 'flex', gap: 16, fontSize: FONT, lineHeight: `${LEGEND}px`, color: theme.colors.text.primary }}>
        {legend.map(({ label, color }) => (
          <span key={label}>
            <span style={{ display: 'inline-block', width: 14, height: 4, borderRadius: 2, background: color, margin: '0 6px 3px 0' }} />
            {label}
          </span>
        ))}
        {pages > 1 && <span style={{ margin: '0 auto', color: theme.colors.text.secondary }}>page 1 of {pages}</span>}
      </div>
    </div>
  );
}

// Each value lasts for one step. If `merged`, equal neighbours are one span, unless there is a gap between them.
function spansOf({ time, field }, merged) {
  const step = time.config.interval;
  const spans = [];
  field.values.forEach((value, index) => {
    const begin = time.values[index];
    const end = begin + step;
    const color = field.display(value).color;
    const last = spans.at(-1);
    if (merged && last && Object.is(last.value, value) && begin <= last.end + step / 2) {
      last.end = end;
    } else {
      spans.push({ begin, end, value, color });
    }
  });
  return spans;
}

function legendOf(rows, theme) {
  const { color, thresholds } = rows[0].field.config;
  if (color?.mode === 'thresholds' && thresholds.steps.length > 1) {
    return thresholds.steps.map((step, index) => ({ label: stepLabel(rows[0].field, index), color: theme.visualization.getColorByName(step.color) }));
  }
  const seen = new Map();
  for (const { field } of rows) {
    for (const value of field.values) {
      const shown = field.display(value);
      const label = formattedValueToString(shown);
      if (label.trim()) {
        seen.set(label, shown.color);
      }
    }
  }
  return [...seen].map(([label, color]) => ({ label, color }));
}

function stepLabel(field, index) {
  const shown = (step) => formattedValueToString(field.display(step.value));
  const { steps } = field.config.thresholds;
  return index === 0 ? `< ${shown(steps[1])}` : `${shown(steps[index])}+`;
}

function ticks(from, to) {
  const hour = 3_600_000;
  const first = Math.ceil(from / hour) * hour;
  return Array.from({ length: Math.floor((to - first) / hour) + 1 }, (_, index) => first + index * hour);
}
