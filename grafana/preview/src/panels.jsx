// Grafana's component for each type of panel, with the options that its plugin would pass on.
import { FieldType, getDisplayValueAlignmentFactors, getFieldDisplayValues, VizOrientation } from '@grafana/data';
import { BarGauge, BigValue, Table, TimeSeries, useTheme2, VizRepeater } from '@grafana/ui';

import { withDefaults } from './fields.mjs';
import { drawMarks } from './marks.mjs';
import { Timeline } from './timeline.jsx';

const COMPONENTS = { timeseries: Lines, stat: Numbers, bargauge: Bars, table: CardTable, 'state-timeline': States, 'status-history': Cells };

export function Visualization(props) {
  const { panel, frames, width, height } = props;
  const Component = COMPONENTS[panel.type];
  if (!Component) {
    window.complaints.push(`${panel.title}: no component for ${panel.type}`);
    return null;
  }
  if (!frames.some((frame) => frame.length)) {
    window.complaints.push(`${panel.title}: no answer`);
    return <Nothing {...props} />;
  }
  return <Component {...props} width={width} height={height} />;
}

// Shows `noValue` in the middle of a panel without data, in a stat as large as a value.
function Nothing({ panel, height }) {
  const theme = useTheme2();
  const size = panel.type === 'stat' ? 28 : 16;
  return (
    <div style={{ lineHeight: `${height}px`, textAlign: 'center', fontSize: size, color: theme.colors.text.secondary }}>
      {panel.fieldConfig.defaults.noValue ?? 'No data'}
    </div>
  );
}

function Lines({ panel, frames, regions, range, width, height }) {
  const theme = useTheme2();
  return (
    <TimeSeries frames={frames} timeRange={range} timeZone="utc" width={width} height={height} legend={panel.options.legend} options={panel.options}>
      {(config) => {
        config.addHook('draw', (plot) => drawMarks(plot, regions, theme));
        return null;
      }}
    </TimeSeries>
  );
}

function CardTable({ panel, frames, width, height }) {
  return (
    <Table data={frames[0]} width={width} height={height} fieldConfig={panel.fieldConfig} initialSortBy={panel.options?.sortBy}
      cellHeight={panel.options?.cellHeight ?? 'sm'} />
  );
}

function Numbers({ panel, frames, width, height }) {
  const { options } = panel;
  return (
    <Repeated panel={panel} frames={frames} width={width} height={height} orientation={options.orientation}>
      {({ value, width: wide, height: high, count, theme }) => (
        <BigValue value={value.display} width={wide} height={high} theme={theme} count={count} colorMode={options.colorMode}
          disableWideLayout={options.wideLayout === false} graphMode={options.graphMode} justifyMode={options.justifyMode} sparkline={value.sparkline}
          textMode={options.textMode === 'auto' && count > 1 ? 'value_and_name' : options.textMode === 'auto' ? 'value' : options.textMode} />
      )}
    </Repeated>
  );
}

function Bars({ panel, frames, width, height }) {
  const { options } = panel;
  return (
    <Repeated panel={panel} frames={frames} width={width} height={height} orientation={options.orientation}>
      {({ value, width: wide, height: high, theme, orientation, alignmentFactors }) => (
        <BarGauge value={value.display} width={wide} height={high} theme={theme} orientation={orientation} field={value.field}
          display={value.view?.getFieldDisplayProcessor(value.colIndex)} displayMode={options.displayMode} alignmentFactors={alignmentFactors}
          itemSpacing={10} lcdCellWidth={12} showUnfilled={options.showUnfilled} valueDisplayMode={options.valueMode}
          namePlacement={options.namePlacement} />
      )}
    </Repeated>
  );
}

function Repeated({ panel, frames, width, height, orientation, children }) {
  const theme = useTheme2();
  const values = () =>
    getFieldDisplayValues({
      fieldConfig: withDefaults(panel),
      reduceOptions: panel.options.reduceOptions,
      replaceVariables: (text) => text,
      theme,
      data: frames,
      sparkline: panel.options.graphMode === 'area',
      timeZone: 'utc',
    });
  return (
    <VizRepeater getValues={values} renderValue={(item) => children({ ...item, theme })} getAlignmentFactors={getDisplayValueAlignmentFactors}
      width={width} height={height} source={frames} itemSpacing={8} minVizHeight={panel.options.minVizHeight ?? 10}
      maxVizHeight={panel.options.maxVizHeight ?? 300} autoGrid={panel.type === 'stat'} renderCounter={0}
      orientation={orientation === 'horizontal' ? VizOrientation.Horizontal : VizOrientation.Auto} />
  );
}

function States(props) {
  return <Timeline {...props} rows={rowsOf(props.frames)} merged />;
}

// Grafana refuses to draw more than one cell per two pixels.
function Cells(props) {
  const { panel, frames, width } = props;
  const points = Math.max(...frames.map((frame) => frame.length));
  if (points > width / 2) {
    window.complaints.push(`${panel.title}: too many points, ${points} of at most ${Math.floor(width / 2)}`);
  }
  return <Timeline {...props} rows={rowsOf(frames)} />;
}

function rowsOf(frames) {
  return frames.flatMap((frame) => {
    const time = frame.fields.find((field) => field.type === FieldType.time);
    return frame.fields.filter((field) => field.type === FieldType.number).map((field) => ({ frame, time, field }));
  });
}
