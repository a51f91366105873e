"""OpenAI's formats: Chat Completions and Responses, whole and streamed."""
