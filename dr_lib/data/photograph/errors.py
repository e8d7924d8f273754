"""What `crop_fundus` raises where a photograph cannot be used."""


class UnreadableImageError(ValueError):
    """The file is missing, empty, damaged, too large or no picture."""


class NoFundusError(ValueError):
    """The picture shows no field of view that could be a retina."""
