// What is wrong with a page's layout, measured where it is shown. The last expression is an object of functions.
({
  // Each visible text with its box, and what of the box is seen: an ancestor may end before it, with no way to scroll there.
  // What is hidden from the eye and read aloud is one pixel large.
  texts() {
    const found = [], ends = (way) => !['visible', 'auto', 'scroll'].includes(way);
    const seenOf = (element, { left, top, right, bottom }) => {
      for (let e = element; e && e !== document.body; e = e.parentElement) {
        const style = getComputedStyle(e), edge = e.getBoundingClientRect();
        if (ends(style.overflowX)) [left, right] = [Math.max(left, edge.left), Math.min(right, edge.right)];
        if (ends(style.overflowY)) [top, bottom] = [Math.max(top, edge.top), Math.min(bottom, edge.bottom)];
      }
      return { left, top, right, bottom, height: bottom - top, width: right - left };
    };
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node; (node = walk.nextNode());) {
      const element = node.parentElement, range = document.createRange();
      if (!node.data.trim() || element.closest('script,style,noscript,option,title')) continue;
      if (!element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
      range.selectNodeContents(node);
      for (const box of range.getClientRects()) {
        const seen = seenOf(element, box), text = node.data.trim().slice(0, 40);
        if (box.width > 1 && box.height > 1 && (seen.width > 1 || seen.height > 1)) found.push({ element, node, box, seen, text });
      }
    }
    return found;
  },

  // Texts of which a part is not seen, without a title that has the whole.
  cut() {
    const isCut = ({ box, seen }) => box.width - seen.width > 1 || box.height - seen.height > 1;
    return this.texts().filter((one) => !one.element.closest('[title]') && isCut(one)).map((one) => one.text);
  },

  // Pairs of texts that are written over each other. Lines may touch: boxes are higher than letters.
  overlapping() {
    const texts = this.texts().sort((a, b) => a.seen.top - b.seen.top), over = [];
    texts.forEach(({ seen: a, node, text }, i) => {
      for (let j = i + 1; j < texts.length && texts[j].seen.top < a.bottom; j++) {
        const b = texts[j].seen;
        const high = Math.min(a.bottom, b.bottom) - b.top, wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        if (texts[j].node !== node && wide > 2 && high > 0.3 * Math.min(a.height, b.height)) over.push(`${text} | ${texts[j].text}`);
      }
    });
    return over;
  },

  // Elements beyond the right edge, where that makes the page scroll.
  sideways() {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    const beyond = (e) => e.getBoundingClientRect().right > width + 1;
    return [...document.querySelectorAll('body *')].filter(beyond).map((e) => `${e.tagName}.${e.getAttribute('class')}`);
  },

  // What axe-core finds serious or critical.
  async barriers() {
    const { violations } = await axe.run(document, { resultTypes: ['violations'] });
    const where = (one) => one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(' ');
    return violations
      .filter((one) => ['serious', 'critical'].includes(one.impact))
      .map((one) => `${one.impact} ${one.id}: ${one.help}: ${where(one)}`);
  },
})
