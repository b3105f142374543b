// The panels of a dashboard where they are drawn: closed rows stay closed, or all are opened as clicks on them would.
export function openedPanels(board, opened) {
  if (!opened) {
    return board.panels;
  }
  let down = 0;
  return board.panels.flatMap((row) => {
    const moved = ({ gridPos, ...rest }) => ({ ...rest, gridPos: { ...gridPos, y: gridPos.y + down } });
    const inside = row.panels ?? [];
    const all = [{ ...moved(row), collapsed: false, panels: [] }, ...inside.map(moved)];
    if (inside.length) {
      down += Math.max(...inside.map(({ gridPos }) => gridPos.y + gridPos.h)) - row.gridPos.y - 1;
    }
    return all;
  });
}
