"""The errors that `crop_fundus` raises if a photograph cannot be used."""

from dr_lib.errors import DrError


class UnreadableImageError(DrError):
    """The file is missing, empty, damaged, too large or not a picture."""


class NoFundusError(DrError):
    """The picture shows no field of view that could be a retina."""
