"""The store on disk: only whole files, shared by processes, found again, within its limit."""

import dataclasses
import json
import logging
import os
import subprocess
import sys
import tempfile
import textwrap
import time

import numpy as np
import pytest

import jwarp as wp
from jwarp import store as store_module
from jwarp.backend.cpu.target import host_target
from jwarp.compiler import analysed, cpu
from jwarp.config import Settings
from jwarp.store import MAGIC, SUFFIX, UNFINISHED, Store, key_of

KEY = key_of("a", "b")
CONTENT = bytes(range(256)) * 20


def saved(folder, key=KEY, content=CONTENT):
    """The file of an entry saved in `folder`, which has no other."""
    Store(str(folder)).save(key, content)
    (path,) = folder.glob(f"{key}*")
    return path


@pytest.fixture
def warnings_shown(monkeypatch, caplog):
    """The warnings of jwarp's logger, in a process that has not shown any."""
    monkeypatch.setattr(store_module, "_warned", set())
    caplog.set_level(logging.DEBUG, "jwarp")
    return lambda: [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


# The store


def test_what_is_saved_is_found_again(tmp_path):
    store = Store(str(tmp_path / "new" / "folder"))
    assert store.load(KEY) is None
    for content in (b"", b"x", CONTENT):
        store.save(KEY, content)
        assert store.load(KEY) == content
    assert store.load(key_of("b", "a")) is None


def test_keys_depend_on_where_parts_end():
    keys = [key_of("ab", "c"), key_of("a", "bc"), key_of("abc"), key_of("abc", ""), key_of()]
    assert len(set(keys)) == len(keys)
    assert key_of("ab", b"c") == keys[0]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_files_are_private_and_nothing_unfinished_stays(tmp_path):
    path = saved(tmp_path / "made")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert os.listdir(path.parent) == [path.name]


def damaged_forms():
    """The bytes of an entry, spoiled in several ways."""
    header = len(MAGIC) + 64
    size = header + len(CONTENT)
    for length in (0, 1, len(MAGIC), header - 1, header, header + 1, size // 2, size - 1):
        yield f"cut to {length}", lambda data, n=length: data[:n]
    for place in (0, len(MAGIC), len(MAGIC) + 40, header, size - 1):
        yield f"changed at {place}", lambda d, n=place: d[:n] + bytes([d[n] ^ 4]) + d[n + 1 :]
    yield "longer", lambda data: data + b"\0"
    yield "foreign", lambda data: b"\x7fELF" + np.random.default_rng(0).bytes(5000)
    yield "zeros", lambda data: bytes(len(data))


@pytest.mark.parametrize("spoil", [pytest.param(f, id=name) for name, f in damaged_forms()])
def test_a_damaged_file_counts_as_absent_and_is_replaced(tmp_path, spoil):
    path = saved(tmp_path)
    path.write_bytes(spoil(path.read_bytes()))
    assert Store(str(tmp_path)).load(KEY) is None
    saved(tmp_path)
    assert Store(str(tmp_path)).load(KEY) == CONTENT


def test_an_entry_under_the_name_of_another_is_not_used(tmp_path):
    path, other = saved(tmp_path), key_of("other")
    path.rename(tmp_path / (other + SUFFIX))
    assert Store(str(tmp_path)).load(other) is None


@pytest.mark.parametrize("name", ["file", "file/below", "nul\0character", "x" * 300])
def test_a_folder_that_cannot_be_used_is_told_once(tmp_path, name, warnings_shown):
    (tmp_path / "file").write_text("not a folder")
    store = Store(str(tmp_path / name))
    for _ in range(3):
        store.save(KEY, CONTENT)
        assert store.load(KEY) is None
        store.trim()
    assert len(warnings_shown()) == 1
    assert "JWARP_CACHE_DIR" in warnings_shown()[0]
    assert (tmp_path / "file").read_text() == "not a folder"


def test_a_folder_in_the_place_of_a_file_is_no_error(tmp_path, warnings_shown):
    (tmp_path / (KEY + SUFFIX)).mkdir()
    saved_nothing = Store(str(tmp_path))
    saved_nothing.save(KEY, CONTENT)
    assert saved_nothing.load(KEY) is None
    assert len(warnings_shown()) == 1
    assert os.listdir(tmp_path) == [KEY + SUFFIX]


def test_without_a_name_there_is_no_folder(tmp_path, monkeypatch, warnings_shown):
    monkeypatch.chdir(tmp_path)
    Store("").save(KEY, CONTENT)
    assert Store("").load(KEY) is None
    assert not os.listdir(tmp_path)
    assert not warnings_shown()


def test_what_was_used_longest_ago_is_removed(tmp_path):
    store = Store(str(tmp_path), capacity=12_000)
    keys = [key_of(str(k)) for k in range(16)]
    for age, key in enumerate(keys):
        store.save(key, bytes(900))
        os.utime(tmp_path / (key + SUFFIX), times=(0, time.time() - 1000 * (age + 1)))
    assert store.load(keys[-1]) is not None  # now the one used last
    (tmp_path / "foreign").write_bytes(bytes(50_000))
    (tmp_path / f"old{UNFINISHED}").write_bytes(bytes(10))
    os.utime(tmp_path / f"old{UNFINISHED}", times=(0, 0))
    (tmp_path / f"young{UNFINISHED}").write_bytes(bytes(10))
    store.trim()
    left = [key for key in keys if (tmp_path / (key + SUFFIX)).exists()]
    assert left == [*keys[: len(left) - 1], keys[-1]]
    size = sum(file.stat().st_size for file in tmp_path.glob("*" + SUFFIX))
    assert 8_000 < size <= 9_000
    others = {name for name in os.listdir(tmp_path) if not name.endswith(SUFFIX)}
    assert others == {"foreign", f"young{UNFINISHED}"}


def test_entries_are_kept_while_they_fit(tmp_path):
    store = Store(str(tmp_path), capacity=20_000)
    for k in range(16):
        store.save(key_of(str(k)), bytes(900))
    store.trim()
    assert len(os.listdir(tmp_path)) == 16


def test_writing_keeps_the_size_near_the_capacity(tmp_path):
    store = Store(str(tmp_path), capacity=20_000)
    for k in range(1000):
        store.save(key_of(str(k)), bytes(900))
    # Trimming is rare, so this many may be there: the capacity, and what is written between two trims.
    assert 10 < len(os.listdir(tmp_path)) < 20 + 8 * store_module.TRIM_INTERVAL


# Compiled kernels


@wp.kernel
def polynomial(x: wp.array[float], shift: int, y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i + shift] * x[i] + wp.exp(x[i])


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Settings with a folder of their own, under a generator that no other test has."""
    monkeypatch.setattr(cpu, "identity", lambda: "generator of the tests")
    return Settings(cache_dir=str(tmp_path))


def object_code(settings, version="fast", kernel=polynomial):
    """Object code as a process gets it that has not seen the kernel, and where it came from."""
    return cpu.CpuKernel(kernel.ir(), settings).object_code(version)


def test_code_is_compiled_once(settings, monkeypatch):
    for version in cpu.VERSIONS:
        code, source = object_code(settings, version)
        assert source == "compiled"
        with monkeypatch.context() as patched:
            patched.setattr(cpu.CpuKernel, "proofs", None)  # not even the analysis is needed
            patched.setattr(cpu, "generate", None)
            assert object_code(settings, version) == (code, "disk")


def test_code_belongs_to_what_it_was_made_from(settings, monkeypatch):
    variants = [
        (settings, {}),
        (dataclasses.replace(settings, bounds="unchecked"), {}),
        (dataclasses.replace(settings, fast_math=True), {}),
        (settings, {"cpu": "generic"}),
        (settings, {"features": "+sse2"}),
        (settings, {"width": 2}),
    ]
    for values, change in variants:
        target = dataclasses.replace(host_target(), **change)
        with monkeypatch.context() as patched:
            patched.setattr(cpu, "host_target", lambda target=target: target)
            assert [object_code(values, v)[1] for v in cpu.VERSIONS] == ["compiled"] * 2, change
            assert [object_code(values, v)[1] for v in cpu.VERSIONS] == ["disk"] * 2, change
    monkeypatch.setattr(cpu, "identity", lambda: "another generator")
    assert object_code(settings)[1] == "compiled"


def test_code_is_not_kept_where_the_generator_is_unknown(settings, tmp_path, monkeypatch):
    for module in (analysed, cpu):
        monkeypatch.setattr(module, "identity", lambda: None)
    assert [object_code(settings)[1] for _ in range(2)] == ["compiled"] * 2
    assert not os.listdir(tmp_path)


def test_damaged_code_is_compiled_anew(settings, tmp_path):
    code, _ = object_code(settings)
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:-7])
    assert object_code(settings) == (code, "compiled")
    assert object_code(settings) == (code, "disk")


def test_compiling_needs_no_folder(settings, tmp_path, warnings_shown):
    (tmp_path / "file").touch()
    unusable = dataclasses.replace(settings, cache_dir=str(tmp_path / "file"))
    assert [object_code(unusable)[1] for _ in range(2)] == ["compiled"] * 2
    assert len(warnings_shown()) == 1


# Processes

KERNELS = """
import jwarp as wp

@wp.kernel
def shifted(x: wp.array[float], shift: int, y: wp.array[float]):
    i = wp.tid()
    y[i] = wp.sin(x[i + shift]) + x[i]

@wp.kernel
def exported(x: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    if i > 0 and j < 7:
        y[i, j] = x[i - 1, j + 1] * 2.0

@wp.kernel
def too_far(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i + 1]
"""

PROGRAM = """
import hashlib, json, numpy as np
import jwarp as wp
from jwarp.compiler.cpu import compile_program, lower_kernel
from stored_kernels import exported, shifted, too_far

x = np.linspace(-3.0, 3.0, 40, dtype=np.float32)
with wp.record_compiles() as events:
    (y,) = wp.launch(shifted, 40, [x, 2], [40])
    cpu = lower_kernel(exported.ir(), wp.config.settings)
    compile_program(cpu.fingerprint, cpu.program, "fast")
    try:
        wp.launch(too_far, 40, [x], [40])
    except wp.LaunchError as error:
        refusal = str(error)
made = hashlib.sha256(cpu.text().encode()).hexdigest()
print(json.dumps({
    "events": [[e.kernel, e.source, e.seconds, e.bytes] for e in events],
    "y": np.asarray(y).tobytes().hex(), "refusal": refusal, "text": made,
}))
"""


def start(folder, cache, kernels=KERNELS, **environment):
    """Start a fresh process that uses kernels from `folder` and keeps code in `cache`."""
    folder.mkdir(exist_ok=True)
    (folder / "stored_kernels.py").write_text(textwrap.dedent(kernels))
    environment |= {"JWARP_CACHE_DIR": str(cache), "PYTHONPATH": str(folder), "JAX_PLATFORMS": "cpu"}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )


def result(process):
    printed, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert not errors
    return json.loads(printed)


def sources(done):
    return [source for _, source, _, _ in done["events"]]


def test_processes_share_what_is_compiled(tmp_path):
    cache = tmp_path / "cache"
    # Two at once, which compile the same, or find what the other has just written.
    racing = [start(tmp_path / "a", cache, PYTHONHASHSEED=str(seed)) for seed in (1, 2)]
    first, second = map(result, racing)
    assert [name for name, *_ in first["events"]] == ["shifted", "shifted", "exported"]
    assert set(sources(first) + sources(second)) <= {"compiled", "disk"}
    assert "compiled" in sources(first) + sources(second)

    # The same content elsewhere in another file: the error shows that place.
    third = result(start(tmp_path / "b", cache, "\n\n\n" + KERNELS, PYTHONHASHSEED="3"))
    assert sources(third) == ["disk"] * 3
    for done in (second, third):
        assert done["y"] == first["y"]
        assert done["text"] == first["text"]
        assert [event[3] for event in done["events"]] == [event[3] for event in first["events"]]
    for event in first["events"] + third["events"]:
        assert event[2] > 0
        assert event[3] > 100
    line = KERNELS.splitlines().index("    y[i] = x[i + 1]") + 1
    assert f"{tmp_path / 'a' / 'stored_kernels.py'}:{line}" in first["refusal"]
    assert f"{tmp_path / 'b' / 'stored_kernels.py'}:{line + 3}" in third["refusal"]

    for path in cache.iterdir():
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    repaired = result(start(tmp_path / "a", cache))
    assert sources(repaired) == ["compiled"] * 3
    assert repaired["y"] == first["y"]


def test_an_empty_name_keeps_nothing(tmp_path):
    done = result(start(tmp_path / "a", "", HOME=str(tmp_path / "home"), XDG_CACHE_HOME=""))
    assert sources(done) == ["compiled"] * 3
    assert sorted(os.listdir(tmp_path)) == ["a"]


WRITER = """
import sys
from jwarp.store import Store
store, key, content = Store(sys.argv[1]), sys.argv[2], sys.argv[3].encode() * 20000
found = set()
for _ in range(300):
    store.save(key, content)
    found.add(store.load(key))
assert None not in found and {c[:1] for c in found} <= {b"a", b"b"} and {len(c) for c in found} == {20000}
"""


def test_two_processes_write_one_entry(tmp_path):
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), KEY, letter], stderr=subprocess.PIPE)
        for letter in "ab"
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors.decode()
    assert os.listdir(tmp_path) == [KEY + SUFFIX]


# A user that does not exist, and so owns nothing here.
SOMEBODY = 54321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


def give_away(folder, entry):
    os.chown(entry, SOMEBODY, -1)


def give_away_folder(folder, entry):
    os.chown(folder, SOMEBODY, -1)


def open_to_all(folder, entry):
    entry.chmod(0o666)


def open_to_a_group(folder, entry):
    entry.chmod(0o620)


def open_folder(folder, entry):
    folder.chmod(0o777)


def link(folder, entry):
    entry.rename(folder.parent / "entry")
    entry.symlink_to(folder.parent / "entry")


def pipe(folder, entry):
    entry.unlink()
    os.mkfifo(entry)


@pytest.mark.parametrize(
    "change, said",
    [
        pytest.param(give_away, "{entry} belongs to user 54321", marks=as_root),
        pytest.param(give_away_folder, "{folder} belongs to user 54321", marks=as_root),
        (open_to_all, "others may write to {entry}"),
        (open_to_a_group, "others may write to {entry}"),
        (open_folder, "others may write to {folder}"),
        (link, ""),
        (pipe, ""),
    ],
)
def test_an_entry_that_others_may_have_written_is_absent(tmp_path, warnings_shown, change, said):
    """One warning says which file, and what helps; a link or a pipe in the place of an entry is no entry."""
    folder = tmp_path / "folder"
    store = Store(str(folder))
    store.save(KEY, b"machine code")
    (entry,) = folder.iterdir()
    assert store.load(KEY) == b"machine code"
    change(folder, entry)
    assert store.load(KEY) is None and store.load(KEY) is None
    expected = said.format(entry=entry, folder=folder)
    warned = [text for text in warnings_shown() if expected in text]
    assert len(warnings_shown()) == len(warned) == (said != "")
    if "may write" in said:
        assert f"chmod go-w {expected.removeprefix('others may write to ')}" in warned[0]
    assert all("JWARP_CACHE_DIR" in text for text in warned)


def test_a_folder_that_others_may_write_to_gets_no_entries(tmp_path, warnings_shown):
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(0o777)
    Store(str(folder)).save(KEY, b"machine code")
    assert not list(folder.iterdir())
    assert [text for text in warnings_shown() if f"chmod go-w {folder}" in text]
    assert Store(str(folder)).owner().endswith("others may write to it: nothing is read from it")


def test_a_link_to_a_folder_of_ones_own_is_that_folder(tmp_path):
    Store(str(tmp_path / "folder")).save(KEY, b"machine code")
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    assert Store(str(tmp_path / "link")).load(KEY) == b"machine code"


@pytest.mark.parametrize("at", ["folder", "entry"])
def test_a_folder_that_changes_hands_while_it_is_read(tmp_path, monkeypatch, at):
    """The open folder and file are asked and read, whatever has their names afterwards."""
    folder, forged = tmp_path / "folder", tmp_path / "forged"
    Store(str(folder)).save(KEY, b"machine code")
    Store(str(forged)).save(KEY, b"forged code!")
    (entry,) = forged.iterdir()
    entry.chmod(0o666)
    forged.chmod(0o777)
    opened, plain = [], os.open

    def opening(path, *args, **named):
        found = plain(path, *args, **named)
        opened.append(path)
        if len(opened) == ("folder", "entry").index(at) + 1:
            folder.rename(tmp_path / "away")
            forged.rename(folder)
        return found

    monkeypatch.setattr("jwarp.store.os.open", opening)
    assert Store(str(folder)).load(KEY) == b"machine code"
    assert len(opened) >= 2
    assert Store(str(folder)).load(KEY) is None


@as_root
def test_entries_of_root_are_taken_and_those_of_another_user_are_not():
    """Another user reads root's folder; root does not read that user's."""
    program = (
        "import os, sys; from jwarp.store import Store; os.setegid(54321); os.seteuid(54321);"
        "own = Store(sys.argv[2]); own.save(sys.argv[3], b'of the user');"
        "print(Store(sys.argv[1]).load(sys.argv[3]), own.load(sys.argv[3]))"
    )
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o777)
        root, user = os.path.join(place, "root"), os.path.join(place, "user")
        Store(root).save(KEY, b"of root")
        os.chmod(root, 0o755)
        for name in os.listdir(root):
            os.chmod(os.path.join(root, name), 0o644)
        run = [sys.executable, "-c", program, root, user, KEY]
        found = subprocess.run(run, capture_output=True, text=True, check=True, timeout=120)
        assert found.stdout.split("\n")[0] == "b'of root' b'of the user'"
        assert os.stat(user).st_uid == SOMEBODY
        assert Store(user).load(KEY) is None
