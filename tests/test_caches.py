"""Caches: what is used stays, their bounds hold from any thread, and every one of them is listed."""

import gc
import re
import threading
from pathlib import Path

import pytest

import jwarp
from jwarp import caches
from jwarp.caches import Cache, PerOwner, cached, report

PACKAGE = Path(jwarp.__file__).parent


def test_what_is_used_stays():
    cache = Cache("numbers", 8)
    for n in range(1000):
        cache.keep(n, str(n))
        assert cache.get(0) == "0" and cache.get(n) == str(n)
        assert len(cache) <= 8
    assert cache.get(500) is None and 500 not in cache
    assert 0 in cache and 0 in list(cache)


def test_at_least_half_of_the_bound_is_remembered():
    cache = Cache("numbers", 100)
    for n in range(1000):
        cache.keep(n, n)
    assert all(n in cache for n in range(950, 1000))


def test_the_first_value_stays():
    cache = Cache("numbers", 4)
    assert cache.keep("a", 1) == 1
    assert cache.keep("a", 2) == 1
    assert cache.made("a", lambda: 3) == 1
    cache.replace("a", 4)
    assert cache["a"] == 4 and len(cache) == 1
    with pytest.raises(KeyError):
        cache["b"]
    cache.clear()
    assert cache.get("a") is None


def test_nothing_may_be_what_is_kept():
    cache, calls = Cache("answers", 4), []
    for _ in range(3):
        assert cache.made("a", lambda: calls.append(1)) is None
    assert calls == [1]


def test_what_the_program_limits_is_never_forgotten():
    cache = Cache("settings", "values of two settings")
    for n in range(5000):
        cache.keep(n, n)
    assert len(cache) == 5000 and cache.get(0) == 0


def test_what_ends_with_an_entry_may_use_the_cache():
    cache = Cache("numbers", 2)

    class Ends:
        def __del__(self):
            cache.keep("ended", 0)

    for n in range(10):
        cache.keep(n, Ends())
    gc.collect()
    assert len(cache) <= 3


def test_threads_get_the_same_object():
    cache = Cache("objects", 128)
    seen = [{} for _ in range(8)]

    def work(mine):
        for n in range(20_000):
            mine.setdefault(n % 32, set()).add(id(cache.made(n % 32, object)))
            cache.keep(("other", n % 16), n)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cache) <= 128
    assert all(len(set().union(*(mine[n] for mine in seen))) == 1 for n in range(32))


def test_a_cache_ends_with_its_owner():
    class Owner:
        pass

    per, owner = PerOwner("things of an owner", 4), Owner()
    per.of(owner).keep(1, 1)
    assert per.of(owner) is per.of(owner)
    assert [u.entries for u in report() if u.name == "things of an owner"] == [1]
    del owner
    gc.collect()
    assert [u.count for u in report() if u.name == "things of an owner"] == [0]
    caches.owned.remove(per)


def test_functions_keep_their_results():
    calls = []

    @cached(2)
    def square(n):
        calls.append(n)
        return n * n

    assert [square(n) for n in (1, 1, 2, 3, 1)] == [1, 1, 4, 9, 1] and calls == [1, 2, 3, 1]
    (usage,) = [u for u in report() if u.name.endswith("square")]
    assert usage.entries == usage.bound == 2
    del caches._functions[usage.name]


def test_every_cache_of_the_package_says_its_bound():
    """Nothing is cached elsewhere, in a dictionary of a module or by `functools`."""
    kept = re.compile(
        r"functools\.(lru_)?cache\b(?!d)|^_?[A-Za-z_]+: (dict|weakref\.\w+)\[.*(\{\}|\(\))$", re.MULTILINE
    )
    found = [
        f"{path.relative_to(PACKAGE)}: {match.group()}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for match in kept.finditer(path.read_text())
        if path.name != "caches.py"
    ]
    # Tables, which are filled while the package is imported; what each function, and each object of Warp's that is
    # alive, has one of, grids, meshes and arrays of grids among them; what is noted of memory and of kernels that are
    # alive; and the options that programs set for modules.
    others = re.compile(
        r"[A-Z_]+: dict|_REWRITTEN: weakref|foreign/\w+\.py: _\w+: weakref|handles\.py: _named|options\.py: _set"
        r"|rematerialised\.py: _known|array_access\.py: _reads|unique_modules\.py: _known"
    )
    assert [x for x in found if not others.search(x)] == []
