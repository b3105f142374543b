// Draws a picture of each dashboard: queries Prometheus as Grafana would, and renders in a headless browser.
// The only argument is a JSON file, which `draw` in .ci/preview.py writes.
import { readFile, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';

import { bundledPage } from './bundle.mjs';
import { Photographer } from './picture.mjs';
import { answersFor } from './prometheus.mjs';
import { openedPanels } from './rows.mjs';

const plan = JSON.parse(await readFile(process.argv[2], 'utf8'));
const files = (await readdir(plan.dashboards)).filter((name) => name.endsWith('.json')).sort();
const photographer = await Photographer.start(plan.chromium, await bundledPage(), plan.width);
try {
  for (const file of files) {
    const board = JSON.parse(await readFile(path.join(plan.dashboards, file), 'utf8'));
    const panels = openedPanels(board, plan.opened);
    const { answers, annotations } = await answersFor(board, panels, plan);
    const choices = plan.choices[board.uid] ?? {};
    const picture = await photographer.picture({ board, panels, answers, annotations, range: plan.range, choices, sections: plan.heads[board.uid] });
    await save(`${board.uid}.png`, picture.whole);
    if (plan.heads[board.uid]) {
      await save(`${board.uid}-head.png`, picture.head);
    }
    picture.complaints.forEach((complaint) => console.log(`  ${complaint}`));
  }
} finally {
  await photographer.stop();
}

async function save(name, png) {
  await writeFile(path.join(plan.pictures, name), png);
  console.log(`${name}: ${Math.round(png.length / 1024)} KiB`);
}
