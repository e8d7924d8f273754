"""The base class of this library's errors.
DrError
+ a child where a caller catches it by name, defined in the module that raises it
"""

from __future__ import annotations


class DrError(Exception):
    """A request cannot be fulfilled; the message says why and what to do."""

    def _render_traceback_(self) -> list[str]:
        """Show one sentence in Jupyter, too."""
        return [f"{type(self).__name__}: {self}"]
