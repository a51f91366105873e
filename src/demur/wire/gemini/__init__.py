"""Google's generateContent format, whole and streamed."""
