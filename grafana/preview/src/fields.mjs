// Prepares data as panel plugins do in Grafana before their components get it: defaults, overrides, transformations.
import {
  applyFieldOverrides,
  FieldColorModeId,
  FieldConfigOptionsRegistry,
  standardTransformers,
  standardTransformersRegistry,
  transformDataFrame,
} from '@grafana/data';
import { firstValueFrom } from 'rxjs';

const STANDARD = ['unit', 'min', 'max', 'decimals', 'noValue', 'mappings', 'thresholds', 'color', 'links', 'displayName', 'fieldMinMax'];
const CUSTOM = [
  'drawStyle', 'lineInterpolation', 'lineWidth', 'lineStyle', 'fillOpacity', 'gradientMode', 'showPoints', 'pointSize', 'spanNulls',
  'insertNulls', 'stacking', 'axisPlacement', 'axisLabel', 'axisColorMode', 'axisBorderShow', 'axisCenteredZero', 'axisSoftMin',
  'axisSoftMax', 'axisWidth', 'axisGridShow', 'scaleDistribution', 'thresholdsStyle', 'hideFrom', 'barAlignment', 'barWidthFactor',
  'align', 'cellOptions', 'filterable', 'inspect', 'hidden', 'minWidth', 'width',
];
const THRESHOLDS = { mode: 'absolute', steps: [{ color: 'green', value: -Infinity }, { color: 'red', value: 80 }] };
const LINES = {
  drawStyle: 'line', lineInterpolation: 'linear', lineWidth: 1, fillOpacity: 0, gradientMode: 'none', showPoints: 'auto', pointSize: 5,
  spanNulls: false, insertNulls: false, stacking: { mode: 'none', group: 'A' }, axisPlacement: 'auto', axisLabel: '', axisColorMode: 'text',
  axisBorderShow: false, axisCenteredZero: false, scaleDistribution: { type: 'linear' }, thresholdsStyle: { mode: 'off' },
  hideFrom: { tooltip: false, viz: false, legend: false }, barAlignment: 0, barWidthFactor: 0.6,
};
const DEFAULTS = {
  timeseries: { color: { mode: FieldColorModeId.PaletteClassic }, custom: LINES },
  'state-timeline': { color: { mode: FieldColorModeId.ContinuousGrYlRd }, custom: {} },
  'status-history': { color: { mode: FieldColorModeId.Thresholds }, custom: {} },
  table: { color: { mode: FieldColorModeId.Thresholds }, custom: { align: 'auto', cellOptions: { type: 'auto' } } },
};

const registry = new FieldConfigOptionsRegistry(() => [
  ...STANDARD.map((id) => property(id, false)),
  ...CUSTOM.map((id) => property(id, true)),
]);

// Some transformations are listed twice, also under an older name.
const transformations = new Map(Object.values(standardTransformers).map((transformation) => [transformation.id, transformation]));
standardTransformersRegistry.setInit(() =>
  [...transformations.values()].map((transformation) => ({ id: transformation.id, name: transformation.name, transformation }))
);

export async function preparedFrames(panel, frames, theme) {
  const transformed = await firstValueFrom(transformDataFrame(panel.transformations ?? [], frames));
  return applyFieldOverrides({
    data: transformed,
    fieldConfig: withDefaults(panel),
    fieldConfigRegistry: registry,
    replaceVariables: (text) => text,
    theme,
    timeZone: 'utc',
  });
}

export function withDefaults(panel) {
  const plugin = DEFAULTS[panel.type] ?? { color: { mode: FieldColorModeId.Thresholds } };
  const own = panel.fieldConfig.defaults;
  const steps = (own.thresholds ?? THRESHOLDS).steps.map((step) => ({ ...step, value: step.value ?? -Infinity }));
  return {
    defaults: { ...plugin, ...own, thresholds: { ...THRESHOLDS, ...own.thresholds, steps }, custom: { ...plugin.custom, ...own.custom } },
    overrides: panel.fieldConfig.overrides,
  };
}

function property(id, isCustom) {
  return { id: isCustom ? `custom.${id}` : id, path: id, name: id, isCustom, process: (value) => loadable(id, value), shouldApply: () => true };
}

// JSON has no infinity, so the lowest step is null in a file.
function loadable(id, value) {
  if (id !== 'thresholds' || !value) {
    return value;
  }
  return { ...value, steps: value.steps.map((step) => ({ ...step, value: step.value ?? -Infinity })) };
}
