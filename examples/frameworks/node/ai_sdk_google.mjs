// ai with @ai-sdk/google: generateText, streamText, generateObject.
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { generateObject, generateText, streamText } from "ai";
import { z } from "zod";
import { QUESTION, run } from "./harness.mjs";

const asked = (url) => ({
  model: createGoogleGenerativeAI({ baseURL: `${url}/v1beta`, apiKey: "none" })("gemini-2.5-flash"),
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
