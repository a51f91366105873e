// @mastra/core: an agent over its own OpenAI-compatible model, its stream, and a structured output.
import { Agent } from "@mastra/core/agent";
import { z } from "zod";
import { QUESTION, run } from "./harness.mjs";

const agent = (url) =>
  new Agent({
    id: "baker",
    name: "baker",
    instructions: "Answer.",
    model: { id: "openai/gpt-4o", url: `${url}/v1`, apiKey: "none" },
    maxRetries: 0,
  });

async function plain(url) {
  const { text, finishReason, error, tripwire } = await agent(url).generate(QUESTION);
  return [text, { text, finishReason, error, tripwire }];
}

async function streamed(url) {
  const stream = await agent(url).stream(QUESTION);
  const parts = [];
  for await (const part of stream.fullStream) parts.push(part);
  return [parts.map((part) => (part.type === "text-delta" ? part.payload?.text ?? part.text : "")).join(""), parts];
}

async function structured(url) {
  const schema = z.object({ title: z.string() });
  const { object, finishReason, error } = await agent(url).generate(QUESTION, { structuredOutput: { schema } });
  return [object, { object, finishReason, error }];
}

await run({ plain, streamed, structured });
