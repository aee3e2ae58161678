"""The stub of the package is made of the tables; `pytest --update-golden` makes it anew."""

import ast

from complex_kind import complex_numbers, cplx

import jwarp as wp
from jwarp.frontend.builtins import stub
from jwarp.frontend.builtins.planned import PLANNED
from jwarp.frontend.builtins.table import BUILTINS


def test_the_stub_is_what_the_tables_say(update_golden):
    text = stub.written()
    if update_golden:
        stub.PATH.write_text(text)
    assert stub.PATH.read_text() == text, "run pytest --update-golden, or python -m jwarp.frontend.builtins.stub"


def test_the_stub_has_every_public_name_and_no_other():
    tree = ast.parse(stub.PATH.read_text())
    found = set()
    for node in tree.body:
        match node:
            case ast.ImportFrom():
                found |= {a.name for a in node.names if a.asname == a.name}
            case ast.FunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
    modules = {
        name
        for name in vars(wp)
        if type(getattr(wp, name)) is type(ast) and name not in ("device", "optim", "sparse", "types", "utils")
    }
    public = {name for name in vars(wp) if not name.startswith("_")} | {"__version__"}
    assert found == public - modules


def test_no_name_is_both_there_and_to_come():
    assert not PLANNED.keys() & (BUILTINS.keys() | vars(wp).keys())


def test_a_kind_without_a_class_among_the_annotations_gets_its_operators_from_the_table():
    with complex_numbers():
        text = stub._class("cplx", cplx)
    assert text.splitlines()[0] == "class cplx(Components[float]):"
    for line in (
        "re: float",
        "def __init__(self, v0: float, v1: float, /) -> None: ...",
        "def __mul__(self, other: float | cplx, /) -> cplx: ...",
        "def __rmul__(self, other: float, /) -> cplx: ...",
        "def __truediv__(self, other: float, /) -> cplx: ...",
    ):
        assert line in map(str.strip, text.splitlines())
    assert "__mod__" not in text and "__matmul__" not in text
