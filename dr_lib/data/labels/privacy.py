"""The private folder: the salt of a data set's pseudonyms, and all that names a file or a patient."""

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dr_lib.files import lock, replace


class PrivateFolderError(ValueError):
    """The private folder cannot be used."""


def open_private(private: Path, salt: bytes | None = None) -> bytes:
    """Make the folder if it is not there (mode 0700) and return its salt of 32 bytes, drawing one the first time.

    Args:
        private: the folder.
        salt: the salt to keep in a new folder; None draws one.

    Raises:
        PrivateFolderError: the folder cannot be written, or its salt is damaged.
    """
    path = private / "salt"
    try:
        private.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            with replace(path) as temporary:
                temporary.touch(mode=0o600)
                temporary.write_bytes(salt or secrets.token_bytes(32))
        salt = path.read_bytes()
    except OSError as error:
        raise PrivateFolderError(f"cannot use {private}: {error.strerror}. Choose another --private") from error
    if len(salt) != 32:
        raise PrivateFolderError(f"{path} does not hold 32 bytes: delete it and prepare the data set anew")
    return salt


@contextmanager
def lock_private(private: Path) -> Iterator[None]:
    """Keep other preparations out of the folder until the end, be it a kill; not on systems without such locks.

    Raises:
        PrivateFolderError: another one is at work with it, or it cannot be written.
    """
    try:
        private.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = lock(private / "lock")
    except OSError as error:
        raise PrivateFolderError(f"cannot use {private}: {error.strerror}. Choose another --private") from error
    if file is None:
        raise PrivateFolderError(
            f"another prepare is at work with {private}: wait for its end, or choose another --private"
        )
    with file:
        yield


def pseudonym(salt: bytes, kind: str, name: str) -> str:
    """HMAC-SHA256 of a name, hexadecimal: the same for the same name, of no use without the salt."""
    return hmac.new(salt, f"{kind}:{name}".encode(), hashlib.sha256).hexdigest()


def name_image(path: str | Path, images: Path) -> str:
    """What the pseudonym of a photograph is made of: its place below the folder of the photographs, on any system."""
    return Path(os.path.relpath(path, images)).as_posix()
