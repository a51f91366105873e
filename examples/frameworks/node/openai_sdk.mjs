// openai: chat completions, a stream, and the helper that parses.
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import { MESSAGES, run } from "./harness.mjs";

const client = (url) => new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
const asked = { model: "gpt-4o", messages: MESSAGES };

async function plain(url) {
  const got = await client(url).chat.completions.create(asked);
  return [got.choices[0].message.content, got];
}

async function streamed(url) {
  const chunks = [];
  for await (const chunk of await client(url).chat.completions.create({ ...asked, stream: true })) chunks.push(chunk);
  return [chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join(""), chunks];
}

async function structured(url) {
  const response_format = zodResponseFormat(z.object({ title: z.string() }), "recipe");
  const got = await client(url).chat.completions.parse({ ...asked, response_format });
  return [got.choices[0].message.parsed, got];
}

await run({ plain, streamed, structured });
