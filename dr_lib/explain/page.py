"""A private page of photographs with their maps, such as of the eyes that a model missed."""

import base64
from functools import partial
from html import escape
from pathlib import Path

import numpy as np

from dr_lib.data.labels.privacy import is_private
from dr_lib.data.labels.reader import decode_text, read_sheets, take_columns
from dr_lib.data.labels.schema import fold_name
from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.data.photograph.errors import NoFundusError, UnreadableImageError
from dr_lib.data.photograph.pixels import decode_jpeg, encode_jpeg
from dr_lib.errors import DrError
from dr_lib.explain.figures import plot_explanations
from dr_lib.explain.grad_cam import grad_cam, load_network, randomise
from dr_lib.files import replace
from dr_lib.report.render import write_page
from dr_lib.report.style import translate, write_figure


def write_explanations(
    model: Path, listed: Path, folder: Path, out: Path, lang: str
) -> dict[str, str]:
    """Write a page with the map and its control for each photograph of a list.

    Args:
        model: run of notebook 10, or its model folder.
        listed: a table with a column `file`, or a text with a file a line.
        folder: of these files.
        out: page, inside a private folder, where it stays: its name and the files' are in it.
        lang: en or pt.

    Returns:
        Why a photograph is not on the page, by its file.

    Raises:
        DrError: `out` is in no private folder, the list names no file, or none can be used.
        ModelFolderError: no trained model is there.
    """
    if not any(map(is_private, out.absolute().parents)):
        raise DrError(f"{out} is in no private folder: give a page inside that of `prepare`")
    network, facts = load_network(model)
    crops = {}
    left_out = {}
    for file in read_list(listed):
        try:
            crop = crop_fundus(folder / file, facts["crop_size"], method=facts["crop_method"])
        except (NoFundusError, UnreadableImageError) as error:
            left_out[file] = str(error)
        else:
            crops[file] = decode_jpeg(encode_jpeg(crop.image), facts["image_size"])
    if not crops:
        reasons = "; ".join(f"{file}: {reason}" for file, reason in left_out.items())
        raise DrError(f"no photograph of {listed} can be shown: {reasons}")
    images = np.stack(list(crops.values()))
    maps = grad_cam(network, images)
    control = grad_cam(randomise(network, seed=20), images)

    say = partial(translate, lang=lang)
    title = escape(say("Where the model looks"))
    warning = escape(say("This page shows photographs of patients: keep it private."))
    contents = [f'<li><a href="#p{k}">{escape(file)}</a></li>' for k, file in enumerate(crops)]
    parts = [f"<nav><ol>{''.join(contents)}</ol></nav>"]
    parts.append(f"<main><h1>{title}</h1><p><strong>{warning}</strong></p>")
    for k, file in enumerate(crops):
        each = images[k : k + 1], maps[k : k + 1], control[k : k + 1]
        figure = plot_explanations(*each, None, is_synthetic=False, lang=lang)
        source = base64.b64encode(write_figure(figure, "png")).decode()
        image = f'<img alt="" style="width:100%" src="data:image/png;base64,{source}">'
        parts.append(f'<h2 id="p{k}">{escape(file)}</h2>{image}')
    parts.append("</main>")
    with replace(out) as temporary:
        temporary.touch(mode=0o600)
        temporary.write_text(write_page("".join(parts), lang), encoding="utf-8")
    return left_out


def read_list(listed: Path) -> list[str]:
    """Read the files of a list, each once, in its order."""
    for sheet in read_sheets(listed):
        header = [fold_name(name) for name in sheet.header]
        if "file" in header:
            cells = take_columns(sheet._replace(names=header), ["file"])["file"]
            break
    else:
        cells = map(str.strip, decode_text(listed)[0].splitlines())
    files = list(dict.fromkeys(filter(None, cells)))
    if not files:
        raise DrError(f"{listed} names no file: give a column file, or a file a line")
    return files
