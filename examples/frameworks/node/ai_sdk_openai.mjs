// ai with @ai-sdk/openai: generateText, streamText, generateObject.
import { createOpenAI } from "@ai-sdk/openai";
import { generateObject, generateText, streamText } from "ai";
import { z } from "zod";
import { QUESTION, run } from "./harness.mjs";

const asked = (url) => ({
  model: createOpenAI({ baseURL: `${url}/v1`, apiKey: "none" }).chat("gpt-4o"),
  prompt: QUESTION,
  maxRetries: 0,
});

async function plain(url) {
  const { text, finishReason, warnings, providerMetadata } = await generateText(asked(url));
  return [text, { text, finishReason, warnings, providerMetadata }];
}

async function streamed(url) {
  const parts = [];
  for await (const part of streamText({ ...asked(url), onError: () => {} }).fullStream) parts.push(part);
  return [parts.map((part) => (part.type === "text-delta" ? part.text : "")).join(""), parts];
}

async function structured(url) {
  const { object, finishReason } = await generateObject({ ...asked(url), schema: z.object({ title: z.string() }) });
  return [object, { object, finishReason }];
}

await run({ plain, streamed, structured });
