"""A folder of files that keeps what was computed once for later processes.

An entry is a file named by its key. It begins with the key and a checksum, so that what is cut off,
damaged or of another program counts as absent. Entries appear by renaming, which readers and other
writers see as a whole or not at all. No trouble with the disk is an error: it costs time, not results.

Entries are machine code that is run. So one is taken only if the folder and the file belong to the user or to root, and
nobody else may write to them. Both are opened first, and the open ones are asked: what a name stands for may change.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import pwd
import stat
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

MAGIC = b"jwarp artifact 1\n"
SUFFIX = ".jwarp"
UNFINISHED = ".jwarp-new"

CAPACITY = 256 * 2**20
# Entries are counted after about one write in so many: looking at all of them takes time.
TRIM_INTERVAL = 64
# A file still unfinished after so many seconds belongs to a process that died.
ABANDONED = 3600.0

log = logging.getLogger("jwarp")
_warned: set[str] = set()


def key_of(*parts: str | bytes) -> str:
    """The key of what is determined by `parts`."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def replace_file(path: Path, content: bytes) -> None:
    """Put a file in a place as a whole, so that nobody reads a part of it."""
    descriptor, unfinished = tempfile.mkstemp(UNFINISHED, path.name[:16], path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise


@dataclass(frozen=True)
class Store:
    """The entries in `folder`, which need not exist; with an empty name there are none."""

    folder: str
    capacity: int = CAPACITY

    def load(self, key: str) -> bytes | None:
        """The content saved under `key`, or None."""
        if not self.folder:
            return None
        path = self._path(key)
        try:
            data = self._read(path.name)
        except _ForeignError as error:
            self._warn(str(error))
            return None
        # A ValueError is a name that no file can have.
        except (OSError, ValueError) as error:
            if not isinstance(error, FileNotFoundError):
                log.debug("cannot read %s: %s", path, error)
            return None
        content = data[len(MAGIC) + 64 :]
        if data != _header(key, content) + content:
            log.debug("%s is damaged; it is made anew", path)
            return None
        return content

    def save(self, key: str, content: bytes) -> None:
        """Keep `content` under `key`, if the folder can be written to."""
        if not self.folder:
            return
        path = self._path(key)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(self._opened())
            replace_file(path, _header(key, content) + content)
        except (OSError, ValueError) as error:
            self._warn(error if isinstance(error, _ForeignError) else f"it cannot be written to: {error}")
            return
        if int(key, 16) % TRIM_INTERVAL == 0:
            self.trim()

    def made(
        self, key: str, make: Callable[[], T], write: Callable[[T], bytes | None], read: Callable[[bytes], T]
    ) -> T:
        """The result of `make`, read from the entry if there is one. It is not stored where `write` gives None."""
        entry = self.load(key)
        if entry is not None:
            try:
                return read(entry)
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                log.debug("the entry %s cannot be read (%r); it is made anew", key, error)
        made = make()
        content = write(made)
        if content is not None:
            self.save(key, content)
        return made

    def trim(self) -> None:
        """If the entries take more than `capacity` bytes, remove those used longest ago, to 3/4 of it."""
        entries = sorted(self._entries())
        newest = entries[-1][0] if entries else 0.0
        total = sum(size for _, size, _ in entries)
        goal = self.capacity * 3 // 4 if total > self.capacity else total
        for used, size, path in entries:
            abandoned = path.endswith(UNFINISHED)
            if newest - used > ABANDONED if abandoned else total > goal:
                with contextlib.suppress(OSError):
                    os.unlink(path)
                    total -= size

    def clear(self) -> None:
        """Remove all entries."""
        for _, _, path in self._entries():
            with contextlib.suppress(OSError):
                os.unlink(path)

    def usage(self) -> tuple[int, int]:
        """How many entries there are, and their bytes."""
        sizes = [size for _, size, path in self._entries() if path.endswith(SUFFIX)]
        return len(sizes), sum(sizes)

    def is_writable(self) -> bool:
        """True if entries can be saved. The first entry creates a missing folder."""
        place = self.root
        while not place.exists() and place != place.parent:
            place = place.parent
        return place.is_dir() and os.access(place, os.W_OK | os.X_OK)

    def _entries(self) -> list[tuple[float, int, str]]:
        """When each file was last used, its size and its path, those being written included."""
        entries = []
        try:
            with os.scandir(self.root) as files:
                for file in files:
                    if file.name.endswith((SUFFIX, UNFINISHED)):
                        with contextlib.suppress(OSError):
                            status = file.stat(follow_symlinks=False)
                            entries.append((status.st_mtime, status.st_size, file.path))
        except (OSError, ValueError) as error:
            log.debug("cannot list %s: %s", self.folder, error)
        return entries

    @property
    def root(self) -> Path:
        """The folder's path."""
        return Path(os.path.expanduser(self.folder))

    def owner(self) -> str:
        """The user that the folder belongs to, and who else may write to it."""
        try:
            about = os.stat(self.root)
        except (OSError, ValueError):
            return "nobody: it will be made"
        others = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        trusted = "" if about.st_uid in (os.geteuid(), 0) and not others else ": nothing is read from it"
        return f"{user_name(about.st_uid)}{', and others may write to it' if others else ''}{trusted}"

    def _opened(self) -> int:
        """The descriptor of the folder, which nobody else may write to.

        Raises:
            _ForeignError: it belongs to another user, or others may write to it.
            OSError: there is none.
        """
        folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _refuse_foreign(folder, str(self.root))
        except BaseException:
            os.close(folder)
            raise
        return folder

    def _read(self, name: str) -> bytes:
        """The bytes of a file of the folder. That it is used is noted: it stays.

        Raises:
            _ForeignError: folder or file belong to another user, or others may write to them.
            OSError: there is none, or it is no plain file.
        """
        folder = self._opened()
        try:
            # Entries are no links, and opening a pipe must not wait.
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        finally:
            os.close(folder)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise OSError(f"{name} is no plain file")
            _refuse_foreign(file, str(self.root / name))
            with contextlib.suppress(OSError):
                os.utime(file)
            with open(file, "rb", closefd=False) as opened:
                return opened.read()
        finally:
            os.close(file)

    def _path(self, key: str) -> Path:
        return self.root / (key + SUFFIX)

    def _warn(self, error: object) -> None:
        """Say once that this folder does not work."""
        if self.folder not in _warned:
            _warned.add(self.folder)
            log.warning(
                "compiled kernels are not kept in %s (%s); each process compiles its own. "
                "JWARP_CACHE_DIR names another folder, or none if it is empty",
                self.folder,
                error,
            )


class _ForeignError(OSError):
    """A file or folder that another user may have written."""


def _refuse_foreign(descriptor: int, path: str) -> None:
    """Refuse what is open and another user than this one or root may have written."""
    about = os.fstat(descriptor)
    if about.st_uid not in (os.geteuid(), 0):
        raise _ForeignError(f"{path} belongs to {user_name(about.st_uid)}, and only machine code of your own is run")
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _ForeignError(f"others may write to {path}, and only machine code of your own is run: chmod go-w {path}")


def user_name(number: int) -> str:
    """The name of a user; the number of one that has none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _header(key: str, content: bytes) -> bytes:
    return MAGIC + bytes.fromhex(key) + hashlib.sha256(content).digest()
