"""The lines of a function that are found by indentation are those that `inspect` finds by reading all tokens."""

import ast
import inspect

import pytest

from jwarp.frontend.syntax.source import read_source
from jwarp.lib import decompositions, rotations


# fmt: off
def with_a_bracket_at_the_margin(
    x,
):
    return (x +
1
)


def with_a_text_at_the_margin(x):
    return x
    """
never reached
    """


def with_a_comment_at_the_margin(x):
    y = x
# about what follows

    return y + 1
    # the end


def with_code_that_is_not_there(x):
    return x
    if x:
        pass


def of_one_line(x): return x


def continued(x):
    return x + \
1


class Owner:
    def method(
self, x):
        def inner(y):
            return y

        return inner(x)

    @staticmethod
    def decorated(x):
	    return x  # noqa: E101, W191 (a tab, where four spaces are before)
# fmt: on


OWN = [f for name, f in list(globals().items()) if inspect.isfunction(f) and f.__module__ == __name__]
METHODS = [Owner.method, Owner.decorated]
LIBRARY = [f.python for module in (decompositions, rotations) for f in vars(module).values() if hasattr(f, "python")]


@pytest.mark.parametrize("function", [*OWN, *METHODS, *LIBRARY], ids=lambda f: f.__name__)
def test_the_tree_is_that_of_all_tokens(function):
    with open(inspect.getsourcefile(function)) as file:
        text = file.readlines()
    block = "".join(inspect.getblock(text[function.__code__.co_firstlineno - 1 :]))
    (expected,) = ast.parse("if True:\n" + block).body[0].body if block[0].isspace() else ast.parse(block).body
    assert ast.dump(read_source(function, {}, text).tree) == ast.dump(expected)
