// Draws one dashboard after another in a headless Chromium, as small PNG images.
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

import puppeteer from 'puppeteer-core';
import UPNG from 'upng-js';

// A page needs an address to have local storage, which Grafana's components read. No server answers at this address.
const ADDRESS = 'http://localhost/';
const ICONS = fileURLToPath(new URL('../node_modules/@grafana/ui/dist/', import.meta.url));
// With this many colours, lines and texts on a plain ground look the same, and the file has a third of the bytes.
const COLOURS = 128;
const SETTLE_MILLISECONDS = 700;

export class Photographer {
  static async start(chromium, html, width) {
    // The browser's sandbox may be unavailable in a container or as root. The page is our own, and loads nothing.
    const browser = await puppeteer.launch({ executablePath: chromium, args: ['--no-sandbox', '--font-render-hinting=none'] });
    return new Photographer(browser, html, width);
  }

  constructor(browser, html, width) {
    this.browser = browser;
    this.html = html;
    this.width = width;
  }

  async picture(scene) {
    const page = await this.browser.newPage();
    const complaints = [];
    page.on('pageerror', (error) => complaints.push(`page: ${error.message}`));
    await page.setRequestInterception(true);
    page.on('request', (request) => this.answer(request, complaints));
    await page.setViewport({ width: this.width, height: 1000 });
    await page.goto(ADDRESS);
    if (complaints.length) {
      throw new Error(`the page does not load: ${complaints.join('; ')}`);
    }
    const { height, headHeight } = await page.evaluate((what) => window.drawDashboard(what), { ...scene, width: this.width });
    await page.setViewport({ width: this.width, height });
    await new Promise((resolve) => setTimeout(resolve, SETTLE_MILLISECONDS));
    complaints.push(...(await page.evaluate(() => window.complaints)));
    const whole = await this.cut(page, height);
    const head = scene.sections ? await this.cut(page, headHeight) : undefined;
    await page.close();
    return { whole, head, complaints: [...new Set(complaints)] };
  }

  async cut(page, height) {
    return smaller(await page.screenshot({ type: 'png', clip: { x: 0, y: 0, width: this.width, height } }));
  }

  // Serves the page itself, and Grafana's icons from its package. No request leaves the machine.
  async answer(request, complaints) {
    const { origin, pathname } = new URL(request.url());
    if (request.url() === ADDRESS) {
      await request.respond({ contentType: 'text/html; charset=utf-8', body: this.html });
    } else if (origin === new URL(ADDRESS).origin && /^\/public\/(img|fonts)\/[\w/.-]+$/.test(pathname) && !pathname.includes('..')) {
      const body = await readFile(`${ICONS}${pathname.slice(1)}`).catch(() => null);
      await request.respond(body ? { contentType: 'image/svg+xml', body } : { status: 404 });
    } else if (pathname === '/favicon.ico') {
      await request.respond({ status: 404 });
    } else if (request.url().startsWith('data:')) {
      await request.continue();
    } else {
      complaints.push(`asks for ${request.url().slice(0, 80)}`);
      await request.abort();
    }
  }

  async stop() {
    await this.browser.close();
  }
}

function smaller(png) {
  const image = UPNG.decode(png);
  return Buffer.from(UPNG.encode(UPNG.toRGBA8(image), image.width, image.height, COLOURS));
}
