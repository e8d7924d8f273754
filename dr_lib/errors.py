"""The base of what this library raises.
DrError
+ a child where a caller catches it by name; the child stands in the module that raises it
"""

from __future__ import annotations


class DrError(Exception):
    """Something cannot be done as asked; the message says what, and what to do."""
