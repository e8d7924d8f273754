"""The private folder: the salt for pseudonyms, and everything that names a file or a patient."""

import hashlib
import hmac
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dr_lib.errors import DrError
from dr_lib.files import lock, replace

SALT = "salt"  # the file by which a private folder is known


@contextmanager
def open_private(private: Path, new_salt: bytes | None = None) -> Iterator[bytes]:
    """Lock the private folder, create it (mode 0700) if missing, and yield its salt of 32 bytes.

    The lock ends with the context or the process; systems without such locks keep nobody out.

    Args:
        private: the folder.
        new_salt: the salt to keep in a new folder; None draws one.

    Raises:
        DrError: its salt is damaged, or another prepare is at work.
    """
    private.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = private / SALT
    file = lock(private / "lock")
    if file is None:
        raise DrError(
            f"another prepare is using {private}: wait until it ends, or choose another --private"
        )
    with file:
        if not path.exists():
            with replace(path) as temporary:
                temporary.touch(mode=0o600)
                temporary.write_bytes(new_salt or secrets.token_bytes(32))
        salt = path.read_bytes()
        if len(salt) != 32:
            raise DrError(
                f"{path} does not hold 32 bytes: delete it and prepare the data set again"
            )
        yield salt


def is_private(folder: Path) -> bool:
    """Whether a folder is a private folder."""
    return (folder / SALT).is_file()


def place_private(out: Path, prepared: Path) -> Path:
    """Choose where a report that shows patients is written: `out` if it is inside a private folder,
    else the folder `evaluation` in the one beside the prepared folder.

    Raises:
        DrError: there is no private folder beside it.
    """
    private = find_private(prepared.absolute())
    if any(map(is_private, out.resolve().parents)):
        return out
    if not is_private(private):
        raise DrError(
            f"there is no private folder {private}: choose an --out inside that of {prepared}"
        )
    return private / "evaluation"


def find_private(prepared: Path) -> Path:
    """Find the private folder beside a prepared folder."""
    return prepared.with_name(f"{prepared.name}.private")


def check_apart(private: Path, out: Path) -> None:
    """Refuse a prepared folder inside a private one and vice versa: only the former may be shared.

    Raises:
        DrError: one of them lies in the other, or they are one.
    """
    for folder in (out, *out.parents):
        if folder == private or is_private(folder):
            reason = f"{folder} is private, the prepared folder is not"
            raise DrError(f"{reason}: choose another --out than {out}")
    if out in private.parents:
        reason = f"{private} is inside {out}, which may be shared"
        raise DrError(f"{reason}: choose another --private")


def pseudonym(salt: bytes, kind: str, name: str) -> str:
    """HMAC-SHA256 of a name, hexadecimal; without the salt nobody can recover the name."""
    return hmac.new(
        salt, f"{kind}:{name}".encode("utf-8", "surrogateescape"), hashlib.sha256
    ).hexdigest()
