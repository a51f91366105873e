"""A language model as judge: client, cache and labels."""
