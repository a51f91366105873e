// @anthropic-ai/sdk: messages and a stream.
import Anthropic from "@anthropic-ai/sdk";
import { MESSAGES, run } from "./harness.mjs";

const messages = (url) => new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 0 }).messages;
const asked = { model: "claude-opus-4-8", max_tokens: 500, messages: MESSAGES };
const textIn = (message) => message.content.map((part) => part.text ?? "").join("");

async function plain(url) {
  const got = await messages(url).create(asked);
  return [textIn(got), got];
}

async function streamed(url) {
  const got = await messages(url).stream(asked).finalMessage();
  return [textIn(got), got];
}

await run({ plain, streamed });
