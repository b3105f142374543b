// Sends the queries of a dashboard as Grafana would: variables are filled in, and the panel's width determines the steps.
export async function answersFor(board, panels, plan) {
  const all = Object.fromEntries(board.templating.list.map(({ name, allValue }) => [name, allValue ?? '']));
  const choices = { ...all, ...plan.choices[board.uid] };
  const answers = {};
  for (const panel of panels) {
    answers[panel.id] = [];
    for (const target of panel.targets ?? []) {
      answers[panel.id].push(await answer(panel, target, choices, plan));
    }
  }
  return { answers, annotations: await Promise.all((board.annotations?.list ?? []).map((annotation) => annotationFor(annotation, choices, plan))) };
}

async function annotationFor(annotation, choices, plan) {
  const step = parseInt(annotation.step, 10);
  const query = filledIn(annotation.expr, { ...choices, __interval: annotation.step });
  const data = await ask(plan.prometheus, 'query_range', { query, start: plan.range.from, end: plan.range.to, step });
  return { annotation, step, result: data.result };
}

async function answer(panel, target, choices, plan) {
  const minStep = Math.max(plan.scrapeSeconds, 60 * (parseInt(target.interval, 10) || 0));
  const step = stepSeconds(panel, plan, minStep);
  const values = { ...choices, __rate_interval: rateInterval(step, minStep), __range: `${plan.range.to - plan.range.from}s` };
  const expr = filledIn(target.expr, values);
  const question = target.instant
    ? ['query', { query: expr, time: plan.range.to }]
    : ['query_range', { query: expr, start: aligned(plan.range.from, step), end: aligned(plan.range.to, step), step }];
  const data = await ask(plan.prometheus, ...question);
  return { refId: target.refId, legend: target.legendFormat ?? '', format: target.format, instant: !!target.instant, step, result: data.result };
}

async function ask(prometheus, endpoint, parameters) {
  const response = await fetch(`${prometheus}/api/v1/${endpoint}`, { method: 'POST', body: new URLSearchParams(parameters) });
  const answer = await response.json();
  if (answer.status !== 'success') {
    throw new Error(`${answer.error}, asked: ${parameters.query}`);
  }
  return answer.data;
}

function filledIn(expression, values) {
  return expression.replace(/\$(\w+)/g, (whole, name) => values[name] ?? whole);
}

function stepSeconds(panel, plan, minStep) {
  const width = Math.round((plan.width / 24) * panel.gridPos.w);
  const points = panel.maxDataPoints ?? width;
  const wanted = (plan.range.to - plan.range.from) / points;
  return Math.max(minStep, Math.ceil(wanted / 60) * 60);
}

function rateInterval(step, minStep) {
  return `${Math.max(step + minStep, 4 * minStep)}s`;
}

function aligned(time, step) {
  return Math.floor(time / step) * step;
}
