"""What an auditor's kit does: serve an auditor, open a chain. The server and the chain are loaded by the call, not by the import."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from demur.audit.config import importing, port_of_auditor

if TYPE_CHECKING:
    from demur.audit.chain import Chain
    from demur.audit.sdk import ClaimsAuditor

__all__ = ["open_chain", "serve"]


def serve(auditor: ClaimsAuditor, port: int | None = None, *, host: str = "127.0.0.1") -> None:
    """Serve an auditor over HTTP until the process is told to end.

    Without a port it listens where `auditors.yaml` in the working folder says that it is asked, else at 8085.

    Does nothing while the module that calls it is being imported for a chain or by `demur auditor`, which serve the
    auditor themselves.
    """
    if importing():
        return
    from demur.audit.server import serve_auditor

    def announce(url: str) -> None:
        sys.stderr.write(f"listening at {url}\n")
        sys.stderr.flush()

    serve_auditor(
        auditor, host=host, port=port_of_auditor(auditor.auditor_id) if port is None else port, started=announce
    )


def open_chain(path: str) -> Chain:
    """Return the chain of an `auditors.yaml`: `await chain.audit(request_input(request))`, and `await chain.close()` at the end."""
    from demur.audit.chains import open_chain as opened

    return opened(path)
