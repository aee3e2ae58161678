"""Every piece of Python's syntax has a rule, or a name and a way out in the error that it makes."""

from __future__ import annotations

import ast

import pytest

from jwarp.frontend.lowering.lower import RULES
from jwarp.frontend.lowering.rules import EXPRESSIONS, REFUSED, STATEMENTS

# What stands inside of an f-string or an exception handler only, and what Python no longer makes.
INNER = {"FormattedValue", "Num", "Str", "Bytes", "NameConstant", "Ellipsis", "Interpolation"}
# Newer than the oldest Python that there is.
NEW = {"TypeAlias", "TemplateStr"}


def kinds(base):
    return [kind for kind in base.__subclasses__() if kind.__name__ not in INNER | NEW]


@pytest.mark.parametrize(("base", "table"), [(ast.expr, EXPRESSIONS), (ast.stmt, STATEMENTS)])
def test_syntax_has_a_rule_or_a_name(base, table):
    assert len(kinds(base)) > 20
    assert [kind.__name__ for kind in kinds(base) if (kind in table) == (kind.__name__ in REFUSED)] == []


def test_every_rule_is_in_a_file_that_is_read():
    names = {module.__name__ for module in RULES}
    assert {rule.__module__ for rule in (*EXPRESSIONS.values(), *STATEMENTS.values())} == names
