"""The private folder: the salt of a data set's pseudonyms, and all that names a file or a patient."""

import hashlib
import hmac
import secrets
from pathlib import Path


class PrivateFolderError(ValueError):
    """The private folder cannot be used."""


def open_private(private: Path, salt: bytes | None = None) -> bytes:
    """Make the folder (mode 0700) if need be and return its salt of 32 bytes, drawing one the first time.

    Args:
        private: the folder.
        salt: the salt to keep in a new folder; None draws one.
    """
    path = private / "salt"
    try:
        private.mkdir(parents=True, exist_ok=True)
        private.chmod(0o700)
        if not path.exists():
            path.write_bytes(salt or secrets.token_bytes(32))
            path.chmod(0o600)
        kept = path.read_bytes()
    except OSError as error:
        raise PrivateFolderError(f"cannot use {private}: {error.strerror}. Choose another --private") from error
    if len(kept) != 32:
        raise PrivateFolderError(f"{path} does not hold 32 bytes: delete it and prepare the data set anew")
    return kept


def pseudonym(salt: bytes, kind: str, name: str) -> str:
    """HMAC-SHA256 of a name, hexadecimal: the same for the same name, of no use without the salt."""
    return hmac.new(salt, f"{kind}:{name}".encode(), hashlib.sha256).hexdigest()
