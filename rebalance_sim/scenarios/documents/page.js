for (const head of document.querySelectorAll("th")) head.onclick = () => {
  const body = head.closest("table").tBodies[0], at = head.cellIndex;
  const down = head.dataset.down = head.dataset.down === "1" ? "" : "1";
  const read = row => row.cells[at].textContent.replaceAll(",", "");
  const rows = [...body.rows].sort((a, b) => {
    const x = read(a), y = read(b), order = parseFloat(x) - parseFloat(y);
    return (down ? 1 : -1) * (isNaN(order) ? x.localeCompare(y) : order);
  });
  body.append(...rows);
};
const template = JSON.parse(document.getElementById("template").textContent);
const narrow = innerWidth < 600;
const draw = place => {
  if (place.dataset.drawn || !place.offsetWidth) return;
  place.dataset.drawn = 1;
  const { data, layout } = JSON.parse(place.nextElementSibling.textContent);
  // Labels inside a plot have no room on a phone: what they say is under the pointer, too.
  if (narrow) layout.annotations = (layout.annotations || []).filter(one => one.name !== "label");
  const options = { responsive: true, displayModeBar: false };
  Plotly.newPlot(place, data, { ...layout, template }, options);
};
const drawAll = part => part.querySelectorAll(".plot").forEach(draw);
for (const fold of document.querySelectorAll("details")) fold.ontoggle = () => drawAll(fold);
drawAll(document);
