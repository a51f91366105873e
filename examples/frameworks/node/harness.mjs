// Runs the cases of one application against the simulator and prints what it got, a JSON object per line, as ../python/harness.py does.
export const QUESTION = "How do I bake bread?";
export const MESSAGES = [{ role: "user", content: QUESTION }];
const CASES = [
  ["answer", "plain", "answer"],
  ["answer streamed", "streamed", "answer"],
  ["answer structured", "structured", "answer"],
  ["refusal", "plain", "refuse"],
  ["streamed", "streamed", "refuse"],
  ["filter", "plain", "filter"],
  ["blocked", "plain", "filter-azure-400"],
  ["structured", "structured", "refuse"],
];
const MAX_DEPTH = 9;
const MAX_CHARS = 300;

export async function run(functions) {
  const urls = JSON.parse(process.env.DEMUR_SIMULATORS);
  for (const [name, called, scenario] of CASES) {
    if (!functions[called]) continue;
    let got;
    try {
      const [text, result] = await functions[called](urls[scenario]);
      const shown = text && typeof text === "object" ? JSON.stringify(text) : text;
      got = { text: shown == null ? null : String(shown).slice(0, MAX_CHARS), fields: fields(result) };
    } catch (error) {
      // Some libraries give their errors a name of their own, others a class.
      const raised = error.name && error.name !== "Error" ? error.name : error.constructor.name;
      got = { raised, message: String(error.message).slice(0, MAX_CHARS), fields: fields(error) };
    }
    process.stdout.write(JSON.stringify({ case: name, ...got }) + "\n");
  }
  process.exit(0);
}

// The strings in a value by their path; items of a list share one.
function fields(value) {
  const found = {};
  const walk = (item, path, above) => {
    if (item == null || above.includes(item) || above.length > MAX_DEPTH) return;
    if (typeof item !== "object") {
      if (typeof item === "function" || typeof item === "symbol") return;
      const values = (found[path] ??= []);
      const text = String(item).slice(0, MAX_CHARS);
      if (!values.includes(text) && values.length < CASES.length) values.push(text);
    } else if (Array.isArray(item)) {
      for (const each of item) walk(each, `${path}[]`, [...above, item]);
    } else {
      for (const key of Object.keys(item)) {
        if (!key.startsWith("_")) walk(item[key], path ? `${path}.${key}` : key, [...above, item]);
      }
    }
  };
  walk(value, "", []);
  return found;
}
