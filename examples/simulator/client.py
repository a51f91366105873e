"""A client that copes with refusals: it reads the refusal field, the finish reason and the words, and tells its user."""

from __future__ import annotations

import sys

import openai

import demur


def main() -> int:
    """Ask one question and print the answer, or say in one line why there is none."""
    client = openai.OpenAI(max_retries=0)
    try:
        completion = client.chat.completions.create(
            model="gpt-4o", messages=[{"role": "user", "content": "How do I bake bread?"}]
        )
    except openai.OpenAIError as exc:
        sys.stdout.write(f"no answer: {exc}\n")
        return 1
    choice = completion.choices[0]
    if choice.message.refusal:
        sys.stdout.write(f"the model refused: {choice.message.refusal}\n")
    elif choice.finish_reason == "content_filter":
        sys.stdout.write("a filter cut the answer off\n")
    elif not choice.message.content:
        sys.stdout.write("the model gave no answer\n")
    elif demur.check(choice.message.content).outcome != "complied":
        sys.stdout.write(f"the model declined in its own words: {choice.message.content}\n")
    else:
        sys.stdout.write(f"{choice.message.content}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
