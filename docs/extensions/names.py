"""The public names: how stable each is, the version that brought it, and its signature.

`docs/names.txt` has a line for each. A change of a signature renews it:

    python docs/extensions/names.py

New names are provisional. The level of a name is changed by hand. The directive `names` lists the file.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator
from functools import reduce
from importlib.metadata import version as version_of
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import jwarp

PAGES = Path(__file__).parent.parent
FILE = PAGES / "names.txt"
LEVELS = ("stable", "provisional")
MODULES = ("autograd", "optim", "optim.linear", "sparse", "utils")  # types has what is public in jwarp itself

# Classes and their public members, as the reference lists them.
DOCUMENTED = re.compile(r"^\.\. autoclass:: (\S+)\n   :members: (.+)$", re.MULTILINE)


class Name(NamedTuple):
    """One line of the file."""

    level: str
    since: str
    name: str
    signature: str

    def __str__(self) -> str:
        return f"{self.level:<11} {self.since} {self.name}{self.signature}"


# -- what the package has


def signatures() -> dict[str, str]:
    """The signature of every public name, of the public modules' names, and of the public members of classes."""
    values = {name: getattr(jwarp, name) for name in jwarp.__all__}
    for module in MODULES:
        values |= {f"{module}.{name}": value for name, value in _own_names(_found(module)).items()}
    for cls, members in DOCUMENTED.findall((PAGES / "reference.md").read_text()):
        values |= {f"{cls}.{name}": inspect.getattr_static(_found(cls), name) for name in members.split(", ")}
    described = {name: _described(value) for name, value in values.items() if not isinstance(value, ModuleType)}
    return dict(sorted(described.items()))


def _found(path: str) -> Any:
    """What a dotted name of the package stands for."""
    return reduce(getattr, path.split("."), jwarp)


def _own_names(module: ModuleType) -> dict[str, Any]:
    """The public names of a module: those that it lists, or that it defines."""
    members = vars(module)
    if "__all__" in members:
        return {name: members[name] for name in members["__all__"]}
    mine = {name: value for name, value in members.items() if getattr(value, "__module__", "").startswith("jwarp")}
    return {name: value for name, value in mine.items() if not name.startswith("_") and not hasattr(jwarp, name)}


def _described(value: Any) -> str:
    if isinstance(value, enum.EnumType):
        return f" = {', '.join(member.name for member in value)}"
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if callable(value):
        return _signature(value)
    return f" = {value!r}" if isinstance(value, (int, float, str)) else ""


def _signature(value: Any) -> str:
    """The parameters with their defaults, without types, which the stub has."""
    try:
        parameters = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return "(...)"
    plain = [
        p.replace(annotation=p.empty, default=_shown(p.default)) for p in parameters if p.name not in ("self", "cls")
    ]
    return str(inspect.Signature(plain))


class _Text(str):
    def __repr__(self) -> str:
        return str(self)


def _shown(default: Any) -> Any:
    """A default as it is printed: objects other than numbers, texts and such by their names or as dots."""
    if default is inspect.Parameter.empty or default is None or isinstance(default, (bool, int, float, str)):
        return default if not isinstance(default, enum.Enum) else _Text(default.name)
    return _Text(getattr(default, "__name__", "..."))


# -- the file


def read() -> dict[str, Name]:
    """The lines of the file, by name."""
    lines = [line for line in FILE.read_text().splitlines() if line and not line.startswith("#")]
    parts = [re.fullmatch(r"(\w+) +([\d.]+) ([\w.]+)(.*)", line) for line in lines]
    return {m[3]: Name(m[1], m[2], m[3], m[4]) for m in parts if m}


def renewed() -> dict[str, Name]:
    """The lines that fit the package: names keep their level and version, new ones are provisional."""
    known = read() if FILE.exists() else {}
    now = ".".join(version_of("jwarp").split(".")[:2])
    return {
        name: known.get(name, Name("provisional", now, name, ""))._replace(signature=signature)
        for name, signature in signatures().items()
    }


def write() -> None:
    head = "# Level, first version, and signature of each public name. Renew by: python docs/extensions/names.py\n"
    FILE.write_text(head + "".join(f"{name}\n" for name in renewed().values()))


# -- the directive


def lines(level: str) -> Iterator[str]:
    """The names of a level as one paragraph for each first letter."""
    names = [name for name in read().values() if name.level == level]
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.name[0].lower(), []).append(f"`{name.name}`")
    for group in groups.values():
        yield ", ".join(group)
        yield ""


def setup(app: Any) -> dict[str, bool]:
    """Register the directive."""
    from docutils import nodes
    from docutils.statemachine import StringList
    from sphinx.util.docutils import SphinxDirective

    class Names(SphinxDirective):
        """`names` with a level as its argument."""

        required_arguments = 1

        def run(self) -> list[nodes.Node]:
            node = nodes.container()
            self.state.nested_parse(StringList(list(lines(self.arguments[0])), source=str(FILE)), 0, node)
            return node.children

    app.add_directive("names", Names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    write()
