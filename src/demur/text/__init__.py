"""Text made comparable and read without its disguises: `normalise`, `unmask`.

Laws: nothing here raises on any string, lone surrogates included; every result counts code points of the text that
the user wrote; time and size are linear in it.
"""
