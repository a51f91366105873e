"""Text made comparable, cut into parts and undressed: `normalise`, `segment`, `unmask`.

Laws: nothing here raises on any string, lone surrogates included; every result counts code points of the text that
the user wrote; time and size are linear in it.
"""
