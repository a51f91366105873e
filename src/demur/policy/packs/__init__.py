"""Policy packs that ship with Demur, as Cedar files."""
