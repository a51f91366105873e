"""Provider shapes ⇄ `Exchange`: decoded JSON or stream events in, frozen values out, and back.

Laws: no sockets, no files; a reader raises only `ShapeError`, naming the JSON path; a structured signal is never lost;
what is not understood is kept, not dropped.
"""
