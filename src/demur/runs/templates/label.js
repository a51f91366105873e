"use strict";
// The page shows one response at a time and sends what a person says of it; the server keeps all state.
const at = (id) => document.getElementById(id);
const choices = [...document.querySelectorAll("button[data-label]")];
let shown = null;
let busy = false;

const fail = (message) => {
  at("error").textContent = message;
  at("error").hidden = false;
};

const show = (state) => {
  at("error").hidden = true;
  shown = state.next;
  at("who").textContent = state.annotator ? `Labelled by ${state.annotator}` : "";
  at("bar").max = state.total;
  at("bar").value = state.done;
  at("count").textContent = `${state.done} of ${state.total} labelled`;
  at("item").hidden = !shown;
  at("end").hidden = !!shown;
  for (const button of choices) button.disabled = !shown;
  at("undo").disabled = state.done === 0;
  if (shown) {
    at("prompt").textContent = shown.prompt ?? "[the log has no prompt]";
    at("response").textContent = shown.response;
    scrollTo(0, 0);
  }
};

const send = async (path, body) => {
  // One at a time: a key that is held down must not label what nobody has seen.
  if (busy) return;
  busy = true;
  try {
    const options = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
    const answer = await fetch(path, options);
    const state = await answer.json();
    if (answer.ok) show(state);
    else fail(state.error.message);
  } catch {
    fail("The server does not answer: is `demur label` still running? Labels given so far are in the file.");
  } finally {
    busy = false;
  }
};

const label = (word) => {
  if (shown) send("label", { id: shown.id, side: shown.side, label: word });
};

for (const button of choices) button.addEventListener("click", () => label(button.dataset.label));
at("undo").addEventListener("click", () => send("undo", {}));
at("finish").addEventListener("click", async () => {
  await send("finish", {});
  at("item").hidden = true;
  at("choices").hidden = true;
  at("end").textContent = "Finished. The labels are in the file; close this page.";
  at("end").hidden = false;
});
addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
  const word = { 1: "refusal", 2: "partial", 3: "compliance", 0: "other" }[event.key];
  if (word) label(word);
  else if (event.key === "u" || event.key === "Backspace") send("undo", {});
  else return;
  event.preventDefault();
});
send("state");
