// Draws annotations as Grafana does: a dashed line at each end, and a band over a region.
const DASHES = [3, 3];

// Merges neighbouring points into regions, as Grafana's Prometheus data source does.
export function regionsOf({ annotation, result, step }) {
  return result.flatMap(({ values }) => {
    const regions = [];
    values.filter(([, value]) => Number(value) > 0).forEach(([time]) => {
      const last = regions.at(-1);
      if (last && time <= last.to + step) {
        last.to = time;
      } else {
        regions.push({ from: time, to: time, color: annotation.iconColor });
      }
    });
    return regions;
  });
}

export function drawMarks(plot, regions, theme) {
  const { ctx, bbox } = plot;
  ctx.save();
  for (const { from, to, color } of regions) {
    const [left, right] = [from, to].map((time) => plot.valToPos(time * 1000, 'x', true));
    ctx.strokeStyle = ctx.fillStyle = theme.visualization.getColorByName(color);
    ctx.globalAlpha = 0.08;
    ctx.fillRect(left, bbox.top, right - left, bbox.height);
    ctx.globalAlpha = 0.8;
    ctx.setLineDash(DASHES);
    for (const x of new Set([left, right])) {
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
  }
  ctx.restore();
}
