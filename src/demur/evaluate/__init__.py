"""The detector against labelled sets."""
