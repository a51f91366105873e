"""Check one passport with nothing of ours: `python verify_passport.py bundle.json [trusted key in hex …]`.

It shows that the record was signed and is in the log that the checkpoint speaks of. Whose keys those are, you must know.
"""

import json
import sys
from base64 import b64decode
from hashlib import sha256
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def check_record(envelope: bytes, keys: dict[str, bytes]) -> str:
    """Check the DSSE signature; return the statement."""
    form = json.loads(envelope)
    payload, kind, (signature,) = b64decode(form["payload"]), form["payloadType"].encode(), form["signatures"]
    signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    Ed25519PublicKey.from_public_bytes(keys[signature["keyid"]]).verify(b64decode(signature["sig"]), signed)
    return payload.decode()


def check_checkpoint(note: str, keys: dict[str, bytes]) -> tuple[int, bytes]:
    """Check the signed note; return the log's size and root, or 0 where no known key has signed."""
    text, _, signed = note.rpartition("\n\n")
    origin, size, root = text.split("\n")[:3]
    ids = {(origin, sha256(f"{origin}\n\x01".encode() + key).digest()[:4]): key for key in keys.values()}
    lines = [(name, b64decode(code)) for _, name, code in map(str.split, signed.splitlines())]
    known = [(ids[name, code[:4]], code[4:]) for name, code in lines if (name, code[:4]) in ids]
    for key, signature in known:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, f"{text}\n".encode())
    return (int(size), b64decode(root)) if known else (0, b"")


def root_from(total: bytes, index: int, last: int, proof: list[bytes]) -> bytes:
    """Follow an inclusion proof up from a leaf (RFC 9162, section 2.1.3.2)."""
    for step in proof:
        left = index % 2 == 1 or index == last
        total = sha256(b"\x01" + (step + total if left else total + step)).digest()
        while left and index % 2 == 0 and index > 0:
            index, last = index // 2, last // 2
        index, last = index // 2, last // 2
    return total if last == 0 else b""


bundle = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
trusted = [bytes.fromhex(key) for key in sys.argv[2:] or [key["ed25519"] for key in bundle["keys"]]]
try:
    sealed, by_id = b64decode(bundle["envelope"], validate=True), {sha256(key).hexdigest()[:32]: key for key in trusted}
    statement = check_record(sealed, by_id)
    count, top = check_checkpoint(bundle["checkpoint"], by_id)
    leaf, path = sha256(b"\x00" + sealed).digest(), [b64decode(step) for step in bundle["proof"]]
except (InvalidSignature, KeyError, ValueError) as exc:
    sys.exit(f"NOT VERIFIED: no good signature of a trusted key ({type(exc).__name__} {exc})")
if not 0 <= bundle["index"] < count or root_from(leaf, bundle["index"], count - 1, path) != top:
    sys.exit("NOT VERIFIED: the record is not in the log of this checkpoint")
print(statement, f"verified: record {bundle['index']} of {count}", sep="\n")
print("" if sys.argv[2:] else f"compare the keys: {', '.join(key.hex() for key in trusted)}")
