// Bundles the page as one HTML document that includes its script, styles and fonts and loads nothing.
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';

const HERE = fileURLToPath(new URL('.', import.meta.url));

const commonJs = (name) => `${HERE}../node_modules/@grafana/${name}/dist/cjs/index.cjs`;

export async function bundledPage() {
  const result = await build({
    entryPoints: [`${HERE}page.jsx`],
    bundle: true,
    write: false,
    outdir: 'out',
    format: 'iife',
    jsx: 'automatic',
    define: { 'process.env.NODE_ENV': '"production"', global: 'globalThis' },
    // The ES modules rely on default exports of CommonJS packages that only Grafana's own bundler provides.
    alias: { '@grafana/ui': commonJs('ui'), '@grafana/data': commonJs('data') },
    loader: { '.woff': 'dataurl', '.woff2': 'dataurl', '.svg': 'dataurl', '.ttf': 'empty' },
    logLevel: 'error',
    minify: true,
  });
  const text = (ending) => result.outputFiles.find((file) => file.path.endsWith(ending)).text;
  const script = text('.js').replaceAll('</script', '<\\/script');
  return `<!doctype html><meta charset="utf-8"><style>${text('.css')}</style><div id="root"></div><script>${script}</script>`;
}
