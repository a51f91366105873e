"""Phrase packs that ship with Demur, as data files."""
