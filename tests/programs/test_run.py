"""`python -m jwarp run` is to a program what `python` is, except for what `import warp` gives."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from jwarp.programs import run as programs

PROGRAM = """
import os
import sys
import warp as wp


class Kept:
    pass


def main():
    import pickle

    print(__name__, sys.argv, os.path.realpath(sys.path[0]), os.path.basename(__file__), __spec__ is None)
    print(wp.__name__, sys.modules["__main__"].Kept is Kept, pickle.loads(pickle.dumps(Kept())).__class__ is Kept)
    if sys.argv[1] == "fail":
        raise ValueError("of the program")
    sys.exit({"seven": 7, "text": "a text", "none": None}[sys.argv[1]])


if __name__ == "__main__":
    main()
"""


def run(*arguments, cwd):
    command = [sys.executable, *arguments]
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, env=environment)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("programs")
    (made / "scripts").mkdir()
    (made / "scripts" / "program.py").write_text(PROGRAM)
    (made / "wrong.py").write_text("x = = 1\n")
    (made / "bare.py").write_text(textwrap.dedent(PROGRAM).replace("import warp as wp", "import types as wp"))
    return made


def without_warp(output):
    return output.replace("warp ", "types ")


@pytest.mark.parametrize("argument", ["text", "fail"])
def test_a_script_runs_as_python_runs_it(folder, argument):
    (folder / "scripts" / "bare.py").write_text((folder / "bare.py").read_text())
    ours = run("-m", "jwarp", "run", "scripts/program.py", argument, "-m", cwd=folder)
    pythons = run("scripts/bare.py", argument, "-m", cwd=folder)
    assert ours.returncode == pythons.returncode
    assert without_warp(ours.stdout).replace("program.py", "bare.py") == pythons.stdout
    stripped = ours.stderr.replace("program.py", "bare.py").replace(f"{folder}{os.sep}", "")
    assert stripped == pythons.stderr.replace(f"{folder}{os.sep}", "")


def test_a_module_runs_as_python_runs_it(folder):
    (folder / "scripts" / "__init__.py").write_text("")
    ours = run("-m", "jwarp", "run", "-m", "scripts.program", "seven", cwd=folder)
    assert ours.returncode == 7
    name, argv, rest = ours.stdout.splitlines()[0].partition("[")[0], ours.stdout, ours.stderr
    assert name == "__main__ " and f"{folder}/scripts/program.py" in argv and not rest
    missing = run("-m", "jwarp", "run", "-m", "no_such_module", cwd=folder)
    assert missing.returncode == 1 and missing.stderr == f"{sys.executable}: No module named no_such_module\n"


def test_a_program_that_does_not_parse(folder):
    done = run("-m", "jwarp", "run", "wrong.py", cwd=folder)
    assert done.returncode == 1 and "SyntaxError: invalid syntax" in done.stderr and "jwarp" not in done.stderr


@pytest.mark.parametrize(
    "arguments, said", [(["/no/such.py"], "can't open file '/no/such.py'"), ([], "usage: python -m"), (["-x"], "usage")]
)
def test_what_is_no_program(arguments, said, capsys):
    with pytest.raises(SystemExit) as ended:
        programs.run(arguments)
    assert ended.value.code == 2 and said in capsys.readouterr().err
