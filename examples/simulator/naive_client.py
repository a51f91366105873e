"""A client as most are written first: it takes for granted that there is text."""

from __future__ import annotations

import sys

import openai

completion = openai.OpenAI().chat.completions.create(
    model="gpt-4o", messages=[{"role": "user", "content": "How do I bake bread?"}]
)
sys.stdout.write((completion.choices[0].message.content or "") + "\n")
