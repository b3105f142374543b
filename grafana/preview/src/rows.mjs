// Returns the panels of a dashboard with their positions. Closed rows stay closed, unless `opened` opens all of them.
export function openedPanels(board, opened) {
  if (!opened) {
    return board.panels;
  }
  let shift = 0;
  return board.panels.flatMap((row) => {
    const moved = ({ gridPos, ...rest }) => ({ ...rest, gridPos: { ...gridPos, y: gridPos.y + shift } });
    const inside = row.panels ?? [];
    const all = [{ ...moved(row), collapsed: false, panels: [] }, ...inside.map(moved)];
    if (inside.length) {
      shift += Math.max(...inside.map(({ gridPos }) => gridPos.y + gridPos.h)) - row.gridPos.y - 1;
    }
    return all;
  });
}
