"""What `crop_fundus` raises where a photograph cannot be used."""

from dr_lib.errors import DrError


class UnreadableImageError(DrError):
    """The file is missing, empty, damaged, too large or no picture."""


class NoFundusError(DrError):
    """The picture shows no field of view that could be a retina."""
