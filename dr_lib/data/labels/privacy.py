"""The private folder: the salt of a data set's pseudonyms, and all that names a file or a patient."""

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


class PrivateFolderError(ValueError):
    """The private folder cannot be used."""


def open_private(private: Path, salt: bytes | None = None) -> bytes:
    """Make the folder (mode 0700) if need be and return its salt of 32 bytes, drawing one the first time.

    Args:
        private: the folder.
        salt: the salt to keep in a new folder; None draws one.

    Raises:
        PrivateFolderError: the folder cannot be written, or its salt is damaged.
    """
    path = private / "salt"
    _make(private)
    try:
        if not path.exists():
            temporary = path.with_name("salt.tmp")  # so that a kill leaves no half a salt
            temporary.write_bytes(salt or secrets.token_bytes(32))
            temporary.chmod(0o600)
            temporary.replace(path)
        kept = path.read_bytes()
    except OSError as error:
        raise PrivateFolderError(f"cannot use {private}: {error.strerror}. Choose another --private") from error
    if len(kept) != 32:
        raise PrivateFolderError(f"{path} does not hold 32 bytes: delete it and prepare the data set anew")
    return kept


@contextmanager
def hold(private: Path) -> Iterator[None]:
    """Keep other preparations out of the folder until the end, be it a kill; not on systems without such locks.

    Raises:
        PrivateFolderError: another one holds it, or it cannot be written.
    """
    _make(private)
    if fcntl is None:
        yield
        return
    handle = os.open(private, os.O_RDONLY)
    try:
        _lock(handle, private)
        yield
    finally:
        os.close(handle)


def pseudonym(salt: bytes, kind: str, name: str) -> str:
    """HMAC-SHA256 of a name, hexadecimal: the same for the same name, of no use without the salt."""
    return hmac.new(salt, f"{kind}:{name}".encode(), hashlib.sha256).hexdigest()


def name_image(path: str | Path, images: Path) -> str:
    """What the pseudonym of a photograph is made of: its place below the folder of the photographs, on any system."""
    return Path(os.path.relpath(path, images)).as_posix()


def _make(private: Path) -> None:
    try:
        private.mkdir(mode=0o700, parents=True, exist_ok=True)
        private.chmod(0o700)
    except OSError as error:
        raise PrivateFolderError(f"cannot use {private}: {error.strerror}. Choose another --private") from error


def _lock(handle: int, private: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise PrivateFolderError(
            f"another prepare is at work with {private}: wait for its end, or choose another --private"
        ) from error
    except OSError:
        pass  # a network's file system without locks for folders
