"""Facts about nodes are kept in tables of nodes, which are equal only to themselves."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path

import pytest
from ir_kernels import clamp, power

import jwarp
from jwarp.ir.nodes import Block, For, If, Op, walk
from jwarp.ir.visit import same_code

pytestmark = pytest.mark.quick

FOLDERS = ("ir", "analysis", "passes", "autodiff", "tiling", "backend", "compiler", "launching")
# Where an identity is no key of a fact about a node: caches by kernel, and constants of an interpreted kernel.
IDENTITIES = {"compiler/cpu.py", "compiler/cuda.py", "backend/interpreter/machine.py"}


def identities(text: str) -> int:
    """How often a file calls `id`, or hands it on to be called."""
    if not re.search(r"\bid\b", text):
        return 0
    names = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name) and n.id == "id")
    return sum(isinstance(n.ctx, ast.Load) for n in names)


def test_no_fact_is_kept_by_the_id_of_a_node():
    root = Path(jwarp.__file__).parent
    files = [path for folder in FOLDERS for path in (root / folder).rglob("*.py")]
    assert len(files) > 150
    found = {str(p.relative_to(root)): n for p in files if (n := identities(p.read_text()))}
    assert {name: n for name, n in found.items() if n > 1 or name not in IDENTITIES} == {}


def test_the_search_finds_ids():
    assert identities("kept = {id(node) for node in nodes}\nothers = set(map(id, nodes))") == 2


def test_nodes_are_equal_only_to_themselves():
    kernel = clamp()
    for node in (kernel.body, *walk(kernel.body)):
        again = dataclasses.replace(node)
        assert again != node and {node: 1}.get(again) is None and {node: 1}[node] == 1


def test_code_is_compared_by_what_it_says():
    for kernel in (clamp(), power()):
        again = [dataclasses.replace(n) for n in kernel.body.nodes]
        assert same_code(Block(tuple(again), kernel.body.yields), kernel.body)
        assert not same_code(Block(kernel.body.nodes[1:]), kernel.body)
        for k, node in enumerate(kernel.body.nodes):
            other = _changed(node)
            assert not same_code(Block((*again[:k], other, *again[k + 1 :]), kernel.body.yields), kernel.body)


def _changed(node):
    match node:
        case Op():
            return dataclasses.replace(node, attr="other")
        case If():
            return dataclasses.replace(node, then=node.orelse, orelse=node.then)
        case For():
            return dataclasses.replace(node, step=node.step + 1)
        case _:
            return dataclasses.replace(node, body=node.cond, cond=node.body)
