// Converts responses of Prometheus to Grafana's data frames, as Grafana's Prometheus data source does.
import { FieldType, toDataFrame } from '@grafana/data';

export function framesOf(answers) {
  const tables = answers.filter((answer) => answer.format === 'table' && answer.result.length);
  return answers.flatMap((answer) => {
    if (answer.format === 'table') {
      return answer.result.length ? [tableFrame(answer, tables.length > 1 ? `Value #${answer.refId}` : 'Value')] : [];
    }
    return answer.result.map((series) => seriesFrame(answer, series));
  });
}

function seriesFrame(answer, series) {
  const points = series.values ?? [series.value];
  return toDataFrame({
    refId: answer.refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: points.map(([time]) => time * 1000), config: { interval: answer.step * 1000 } },
      {
        name: 'Value',
        type: FieldType.number,
        values: points.map(([, value]) => Number(value)),
        labels: series.metric,
        config: { displayNameFromDS: legend(answer.legend, series.metric) },
      },
    ],
  });
}

function tableFrame(answer, valueName) {
  const labels = [...new Set(answer.result.flatMap((series) => Object.keys(series.metric)))].sort();
  const column = (name) => answer.result.map((series) => series.metric[name] ?? '');
  return toDataFrame({
    refId: answer.refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: answer.result.map((series) => series.value[0] * 1000) },
      ...labels.map((name) => ({ name, type: FieldType.string, values: column(name) })),
      { name: valueName, type: FieldType.number, values: answer.result.map((series) => Number(series.value[1])) },
    ],
  });
}

function legend(format, labels) {
  return format ? format.replace(/\{\{\s*(.+?)\s*\}\}/g, (_, name) => labels[name] ?? '') : undefined;
}
