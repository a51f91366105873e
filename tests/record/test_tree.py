"""The tree is that of RFC 9162: known roots, a naive model, and proofs that hold only for what is true."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.record.logs import MemoryTree

from demur.errors import ShapeError, UsageError
from demur.record.tree import (
    EMPTY_ROOT,
    Frontier,
    consistency_proof,
    grow,
    inclusion_proof,
    is_consistent,
    is_included,
    leaf_hash,
    node_hash,
)

# Leaf inputs and roots at sizes 1 to 8 of the Certificate Transparency reference tests for RFC 6962, whose tree is
# that of RFC 9162.
INPUTS = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
LEAVES = [leaf_hash(bytes.fromhex(data)) for data in INPUTS]


def split(size: int) -> int:
    """The largest power of two below a size."""
    return 1 << (size - 1).bit_length() - 1


def naive_root(leaves: list[bytes]) -> bytes:
    """The definition of § 2.1.1, as it is written."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    half = split(len(leaves))
    return node_hash(naive_root(leaves[:half]), naive_root(leaves[half:]))


def naive_path(index: int, leaves: list[bytes]) -> list[bytes]:
    """PATH of § 2.1.3.1, as it is written."""
    if len(leaves) <= 1:
        return []
    half = split(len(leaves))
    if index < half:
        return [*naive_path(index, leaves[:half]), naive_root(leaves[half:])]
    return [*naive_path(index - half, leaves[half:]), naive_root(leaves[:half])]


def naive_subproof(old: int, leaves: list[bytes], *, whole: bool = True) -> list[bytes]:
    """SUBPROOF of § 2.1.4.1, as it is written."""
    if old == len(leaves):
        return [] if whole else [naive_root(leaves)]
    half = split(len(leaves))
    if old <= half:
        return [*naive_subproof(old, leaves[:half], whole=whole), naive_root(leaves[half:])]
    return [*naive_subproof(old - half, leaves[half:], whole=False), naive_root(leaves[:half])]


def numbered(size: int) -> list[bytes]:
    return [leaf_hash(str(n).encode()) for n in range(size)]


@pytest.mark.parametrize("size", range(1, 9))
def test_the_reference_roots(size: int) -> None:
    """The tree over the first leaves has the root that everybody else computes."""
    assert MemoryTree(LEAVES[:size]).frontier.root().hex() == ROOTS[size - 1]


def test_an_empty_tree() -> None:
    """Nothing has the hash of nothing, and everything extends it."""
    assert Frontier().root() == EMPTY_ROOT
    assert is_consistent((0, EMPTY_ROOT), (8, bytes.fromhex(ROOTS[7])), ())
    assert not is_consistent((0, LEAVES[0]), (8, bytes.fromhex(ROOTS[7])), ())


@given(st.integers(0, 130))
def test_growing_is_the_definition(size: int) -> None:
    """Leaf by leaf, put away and taken up again, the root is that of the recursive definition."""
    leaves, frontier = numbered(size), Frontier()
    for leaf in leaves:
        frontier, nodes = grow(Frontier.from_bytes(frontier.to_bytes()), [leaf])
        assert nodes[0] == (0, frontier.size - 1, leaf)
        assert len(frontier.roots) == frontier.size.bit_count()
    assert frontier.root() == naive_root(leaves)


@given(st.integers(0, 70), st.integers(0, 70))
def test_many_leaves_grow_as_one_by_one(before: int, more: int) -> None:
    """A batch of leaves leaves the same state, and completes the same nodes in the same order, as its leaves in turn."""
    start = MemoryTree(numbered(before)).frontier
    frontier, made = start, list[tuple[int, int, bytes]]()
    for leaf in numbered(before + more)[before:]:
        frontier, nodes = grow(frontier, [leaf])
        made += nodes
    assert grow(start, numbered(before + more)[before:]) == (frontier, made)


@pytest.mark.parametrize("size", [0, 1, 2046, 2047, 2048, 4093, 4094, 16375, 16376, 16377, 50_000])
def test_a_leaf_of_any_length_is_hashed_whole(size: int) -> None:
    """In however many pieces it is hashed, a leaf has the hash of its prefix and its bytes."""
    data = bytes(number % 251 for number in range(size))
    assert leaf_hash(data) == sha256(b"\x00" + data).digest()


@given(st.data(), st.integers(1, 130))
def test_inclusion_is_the_definition(data: st.DataObject, size: int) -> None:
    """A proof at any size is the definition's, and holds for its own leaf, place, size and root alone."""
    tree, leaves = MemoryTree(numbered(140)), numbered(size)
    index = data.draw(st.integers(0, size - 1))
    proof, root = inclusion_proof(index, size, tree.node), naive_root(leaves)
    assert list(proof) == naive_path(index, leaves)
    assert is_included(leaves[index], index, size=size, root=root, proof=proof)
    assert not is_included(LEAVES[0], index, size=size, root=root, proof=proof)
    assert not is_included(leaves[index], index, size=size, root=LEAVES[0], proof=proof)
    assert not is_included(leaves[index], index, size=size, root=root, proof=(*proof, LEAVES[0]))
    other = data.draw(st.integers(-1, size))
    assert other == index or not is_included(leaves[index], other, size=size, root=root, proof=proof)
    assert not proof or not is_included(leaves[index], index, size=size, root=root, proof=proof[:-1])


@given(st.data(), st.integers(1, 130))
def test_consistency_is_the_definition(data: st.DataObject, size: int) -> None:
    """A proof between two sizes is the definition's, and fails once a root or a hash of it is another."""
    tree, old = MemoryTree(numbered(140)), data.draw(st.integers(1, size))
    before, after = (old, naive_root(numbered(old))), (size, naive_root(numbered(size)))
    proof = consistency_proof(old, size, tree.node)
    assert list(proof) == naive_subproof(old, numbered(size))
    assert is_consistent(before, after, proof)
    assert not is_consistent((old, LEAVES[0]), after, proof)
    assert not is_consistent(before, (size, LEAVES[0]), proof)
    assert not is_consistent(before, after, (*proof, LEAVES[0]))
    for place in range(len(proof)):
        assert not is_consistent(before, after, (*proof[:place], LEAVES[0], *proof[place + 1 :]))


def test_a_smaller_tree_extends_nothing() -> None:
    """Asked the wrong way round, a check says no and a proof is refused."""
    tree = MemoryTree(LEAVES)
    assert not is_consistent((8, bytes.fromhex(ROOTS[7])), (3, bytes.fromhex(ROOTS[2])), (LEAVES[0],))
    assert not is_consistent((3, bytes.fromhex(ROOTS[2])), (8, bytes.fromhex(ROOTS[7])), ())
    with pytest.raises(UsageError, match="cannot extend"):
        consistency_proof(8, 3, tree.node)
    with pytest.raises(UsageError, match="leaf 8 is not in a tree of 8"):
        inclusion_proof(8, 8, tree.node)


@pytest.mark.parametrize("data", [b"", b"\x00" * 7, b"\x00" * 7 + b"\x01", b"\x00" * 40])
def test_a_damaged_frontier_is_refused(data: bytes) -> None:
    """Hashes that do not fit the size are never grown upon."""
    with pytest.raises(ShapeError, match="frontier is damaged"):
        Frontier.from_bytes(data)
