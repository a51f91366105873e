"""HTTP for every server and client here: protocol, pool, codings, metrics."""
