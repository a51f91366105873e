"""Text in a comparable form (`normalise`) and without its disguises (`unmask`).

Nothing here raises on any string, lone surrogates included; offsets count code points of the text that the user wrote; time
and size are linear in it.
"""
