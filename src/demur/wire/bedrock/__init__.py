"""The Converse format of Amazon Bedrock, whole and streamed."""
