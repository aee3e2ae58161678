"""The stub of the package is made of the tables; `pytest --update-golden` makes it anew."""

import ast

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
    modules = {name for name in vars(wp) if type(getattr(wp, name)) is type(ast) and name not in ("device", "types")}
    public = {name for name in vars(wp) if not name.startswith("_")} | {"__version__"}
    assert found == public - modules


def test_no_name_is_both_there_and_to_come():
    assert not PLANNED.keys() & (BUILTINS.keys() | vars(wp).keys())
