() => {
  const wrong = [];
  const say = (what, node) => wrong.push(`${what}: ${node.outerHTML.slice(0, 120)}`);
  if (document.querySelectorAll("h1").length !== 1) wrong.push("not exactly one first heading");
  let before = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
    const level = Number(heading.tagName[1]);
    if (level > before + 1) say("a heading skips a level", heading);
    before = level;
  }
  for (const field of document.querySelectorAll("input:not([type=hidden]), select"))
    if (!field.labels || !field.labels.length || !field.labels[0].textContent.trim()) say("a field without a label", field);
  for (const svg of document.querySelectorAll("svg"))
    if (!svg.closest("[aria-hidden=true]") && !svg.parentElement.closest("svg") && !(svg.getAttribute("role") === "img" && svg.getAttribute("aria-label")))
      say("a picture without words", svg);
  for (const link of document.querySelectorAll("a, button"))
    if (!(link.textContent.trim() || link.getAttribute("aria-label"))) say("a link without a name", link);
  const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
  if (new Set(ids).size !== ids.length) wrong.push("an id twice");
  if (document.documentElement.scrollWidth > innerWidth) wrong.push(`wider than the window by ${document.documentElement.scrollWidth - innerWidth}`);
  for (const node of document.querySelectorAll("main *"))
    if (getComputedStyle(node).overflowX === "hidden" && node.scrollWidth > node.clientWidth + 1 && !node.title) say("cut at its side", node);
  for (const text of document.querySelectorAll("main svg text")) {
    if (!text.checkVisibility()) continue;
    const box = text.getBoundingClientRect(), room = text.closest("section").getBoundingClientRect();
    if (box.left < room.left || box.right > room.right) say("a label outside its panel", text);
  }
  for (const axis of document.querySelectorAll(".chart .below")) {
    const boxes = [...axis.querySelectorAll("text")].filter((text) => text.checkVisibility()).map((text) => text.getBoundingClientRect());
    if (boxes.some((box, n) => n && box.left < boxes[n - 1].right + 2)) say("labels run into each other", axis);
  }
  const channel = (value) => ((value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const colour = numbers(getComputedStyle(node).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? [13, 17, 23] : [255, 255, 255];
  };
  for (const node of document.querySelectorAll("main *")) {
    if (![...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim()) || node.closest("svg") || !node.checkVisibility()) continue;
    const [one, other] = [light(numbers(getComputedStyle(node).color)), light(ground(node))].sort((a, b) => b - a);
    if ((one + 0.05) / (other + 0.05) < 4.5) say(`contrast ${((one + 0.05) / (other + 0.05)).toFixed(2)}`, node);
  }
  return wrong;
};
