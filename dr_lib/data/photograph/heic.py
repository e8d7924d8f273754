"""Let Pillow read HEIC, as telephones write it, and upright: pillow-heif is the extra `heic`."""

from pillow_heif import register_heif_opener

register_heif_opener()
