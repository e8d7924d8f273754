"""Draw synthetic fundus photographs, so that everything runs on a fresh machine without an account
or a download.

They are no model of the disease: lesions follow the international scale (Wilkinson et al. 2003),
but are larger and clearer than in life, so that a small network finds them at 96 px. Colour alone
does not tell the grade: every eye gets an amount of red and of yellow that does not depend on it,
and what its lesions leave of that goes into healthy vessels and drusen. Camera, pigment and haze do
not depend on the grade either.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from dr_lib.data.photograph.crop import Circle
from dr_lib.data.prepared.workers import map_over
from dr_lib.files import write_text
from dr_lib.hardware.cpus import count_cpus

# Messidor-2 as adjudicated by Krause et al. 2018 (1017, 270, 347, 75, 35 of 1,744 photographs): 26
# % are referable.
GRADE_SHARES = (0.583, 0.155, 0.199, 0.043, 0.020)
SIDE = 600
RADIUS = 292  # px of the square canvas and of the retina on it; lengths without a unit are in radii
COARSE = 150  # px of the side on which light is drawn, but for its grain
RED = 205
YELLOW = 215  # how densely blood and exudates are drawn, of 255
# Of red, green and blue: a fair and a dark retina, the optic disc and exudates; and the share that
# blood takes of each.
COLOURS = ((226, 150, 252, 0.55), (126, 70, 216, 0.85), (70, 36, 150, 0.85))
# The most microaneurysms, haemorrhages, rings of hard exudates and cotton wool spots by grade; a
# quarter at the least.
LESIONS = ((0, 0, 0, 0), (6, 0, 0, 0), (12, 15, 2, 0), (16, 32, 3, 6), (12, 20, 2, 2))
# Direction [rad, clockwise from the nose of a right eye], bend and length [steps] of the vessels
# that leave the disc.
STEMS = (
    (-1.8, -1.2, 35),
    (1.8, 1.2, 35),
    (-0.8, 0.3, 17),
    (0.8, -0.3, 17),
    (-2.6, -0.3, 8),
    (2.7, 0.2, 8),
)
STEP = 0.044
MIN_BRANCHING = 0.007  # of a vessel, and the width from which on it has twigs


class Look(NamedTuple):
    """What the photographs of a patient share: the camera, and the eyes but for their lesions."""

    width: int
    height: int
    coverage: float  # diameter of the retina / height: above 1, top and bottom are cut
    cast: np.ndarray  # gain of red, green and blue
    black: int  # grey level of the background
    quality: int  # of the JPEG
    mark: str  # tab, text or nothing
    pigment: float  # 0 fair to 1 dark
    texture: float
    haze: float  # share of the contrast that a clouded lens takes
    calibre: float  # of the widest vein


def choose_grades(num_patients: int, seed: int) -> np.ndarray:
    """Share out GRADE_SHARES over the left and right eyes, (num_patients, 2) integers, fellow
    eyes mostly alike.
    """
    rng = np.random.default_rng(seed)
    severity = rng.standard_normal((num_patients, 1)) + 0.25 * rng.standard_normal(
        (num_patients, 2)
    )
    rank = severity.ravel().argsort().argsort().reshape(num_patients, 2)
    return np.searchsorted(np.cumsum(GRADE_SHARES)[:-1], (rank + 0.5) / rank.size)


def draw_look(rng: np.random.Generator) -> Look:
    """Draw a patient's camera, pigment and vessels."""
    width = int(rng.choice((640, 800, 1024, 1280)))
    ratio = rng.choice((1, 4 / 3, 3 / 2))
    cast = rng.uniform(0.85, 1.15) * rng.normal(1, (0.04, 0.06, 0.15))
    black = int(rng.integers(0, 16))
    quality = int(rng.integers(78, 97))
    mark = str(rng.choice(("tab", "text", "")))
    others = rng.uniform((0, 0.01, 0, 0.018), (1, 0.035, 0.25, 0.025))
    return Look(
        width,
        round(width / ratio),
        rng.uniform(0.86, 1.06),
        cast,
        black,
        quality,
        mark,
        *others.tolist(),
    )


def draw_eye(
    grade: int, eye: str, look: Look, rng: np.random.Generator
) -> tuple[np.ndarray, Circle, np.ndarray]:
    """Draw one photograph of a left or right eye; the grade (0-4) chooses the lesions and nothing
    else.

    Returns it, (height, width, 3) uint8 RGB; the circle of its retina, of which the frame may cut a
    part; and where its lesions are, without drusen and beaded veins, (height, width) bool.
    """
    # of a right eye, where the nose is right
    disc = np.array([rng.uniform(0.42, 0.62), rng.uniform(-0.12, 0.04)])
    macula = disc + [-0.62, 0.07]
    red, yellow, soft = np.zeros((3, SIDE, SIDE), np.uint8)
    lesions = _draw_lesions(red, yellow, soft, disc, macula, grade, rng)
    _draw_vessels(red, disc, macula, look.calibre, rng, beaded=grade == 3)
    light = cv2.merge([_light(disc, macula, look.texture, rng)] * 3)
    canvas = cv2.multiply(_colour(red, yellow, soft, disc, look, rng), light, dtype=cv2.CV_8U)
    return _photograph(np.maximum(canvas, np.uint8(look.black)), lesions, eye, look, rng)


def draw_odd_files(seed: int = 0) -> dict[str, bytes]:
    """Draw one eye, and make files of it as they turn up in folders, by name; half of them
    cannot be used.
    """
    rng = np.random.default_rng(seed)
    look = draw_look(rng)._replace(width=1024, height=768, coverage=0.9, quality=90)
    image, (x, y, radius), _ = draw_eye(1, "right", look, rng)
    outside = np.hypot(np.arange(look.width) - x, np.arange(look.height)[:, None] - y) > radius + 1
    left = round(x - 0.5 * radius)
    top = round(y - 0.5 * radius)
    side = round(radius)
    page = np.full_like(image, 250)
    for line in range(60, look.height, 40):
        cv2.putText(page, "Words, as on a page of a report", (60, line), 0, 1.2, (30, 30, 30), 2)
    drawn = {
        "white around it": np.where(outside[..., None], np.uint8(245), image),
        "squashed": cv2.resize(image, (look.width, 600), interpolation=cv2.INTER_AREA),
        "a part, enlarged": cv2.resize(image[top : top + side, left : left + side], (768, 768)),
        "a closed shutter": np.full_like(image, look.black),
        "a page": page,
    }
    files = {name: _encode(picture, look.quality) for name, picture in drawn.items()}
    whole = _encode(image, look.quality)
    files |= {
        "cut short late": whole[: len(whole) * 3 // 4],
        "cut short early": whole[: len(whole) // 4],
    }
    return files | {"a text file": b"not a picture"}


def _encode(image, quality):
    options = [cv2.IMWRITE_JPEG_QUALITY, quality]
    return cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), options)[1].tobytes()


def _pixels(points):
    """Turn points into OpenCV's fixed-point pixels, in sixteenths."""
    return np.round((np.asarray(points) * RADIUS + SIDE / 2 - 0.5) * 16).astype(np.int32)


def _draw_spots(canvas, places, radii, density, rng):
    """Draw one uneven round spot at each place."""
    angles = np.arange(24)[:, None] * np.pi / 12
    for place in places:
        waves = 1 + 0.1 * (
            np.sin(2 * angles + rng.uniform(0, 6)) + np.sin(3 * angles + rng.uniform(0, 6))
        )
        spot = rng.uniform(*radii) * waves * np.hstack([np.cos(angles), np.sin(angles)])
        cv2.fillPoly(canvas, [_pixels(place + spot)], density, cv2.LINE_AA, 4)


def _draw_lesions(red, yellow, soft, disc, macula, grade, rng):
    """Draw what a grade is known by, whose place is returned, then drusen up to this eye's
    amount of yellow.
    """
    amount = rng.uniform(1.5, 3.8)  # mean density over the canvas
    dots, blots, rings, wool = (rng.integers((most + 3) // 4, most + 1) for most in LESIONS[grade])
    places = rng.uniform(-0.85, 0.85, (200, 2))
    places = places[(np.hypot(*places.T) < 0.85) & (np.hypot(*(places - disc).T) > 0.18)]
    _draw_spots(red, places[:dots], (0.012, 0.018), RED, rng)
    _draw_spots(red, places[dots:][:blots], (0.017, 0.045), RED, rng)
    for middle in macula + rng.normal(0, 0.25, (rings, 2)):
        angles = rng.uniform(0, 6) + rng.uniform(0, 4.5, (10, 1))
        ring = rng.uniform(0.07, 0.15, (10, 1)) * np.hstack([np.cos(angles), np.sin(angles)])
        _draw_spots(yellow, middle + ring, (0.01, 0.024), YELLOW, rng)
    _draw_spots(soft, disc + rng.normal(0, 0.35, (wool, 2)), (0.04, 0.07), YELLOW, rng)
    if grade == 4:  # new vessels, and blood that has sunk in front of the retina
        for tuft in (
            rng.normal(0, 0.004, (24, 20, 2)).cumsum(1).cumsum(1) + disc + rng.normal(0, 0.1, 2)
        ):
            cv2.polylines(red, [_pixels(tuft)], False, RED, 1, cv2.LINE_AA, 4)
        boat = np.array(cv2.ellipse2Poly((0, 0), (100, 75), 0, 0, 180, 15)) * rng.uniform(
            0.0015, 0.0028
        )
        cv2.fillPoly(red, [_pixels(macula + rng.normal(0, 0.25, 2) + boat)], RED, cv2.LINE_AA, 4)
    lesions = red | yellow | soft
    while cv2.mean(yellow)[0] + cv2.mean(soft)[0] < amount:
        _draw_spots(soft, macula + rng.normal(0, 0.35, (1, 2)), (0.02, 0.07), 170, rng)
    return lesions


def _draw_vessels(red, disc, macula, calibre, rng, *, beaded):
    """Grow arcades around the macula and shorter stems to the nose, then twigs up to this eye's
    amount of red.

    A vessel is a row: x, y, direction, bend, length in steps, width and density.
    """
    amount = rng.uniform(6, 10) - cv2.mean(red)[0]
    ways, bends, lengths = np.array(STEMS).T
    stems = []
    widths = calibre * (lengths + 35) / 70
    for share, density in ((0.7, RED * 0.65), (1, RED)):  # arteries, veins
        stem = (
            *disc,
            ways + rng.normal(0, 0.12, len(STEMS)),
            bends,
            lengths,
            widths * share,
            density,
        )
        stems.append(np.stack(np.broadcast_arrays(*stem), 1))
    vessels = np.concatenate(stems)
    grown = []
    spare = []
    while len(vessels):
        lines, twigs = _grow(vessels, macula, rng)
        grown += lines
        vessels = twigs[::2]
        spare = [*spare, twigs[1::2]]
    _draw_lines(red, grown, beaded=beaded)
    amount = amount + cv2.mean(red)[0]
    spare = np.concatenate(spare)
    while len(spare) and (lacking := amount - cv2.mean(red)[0]) > 0:
        spare = rng.permutation(spare)
        # where none overlap
        areas = np.cumsum(0.85 * STEP * spare[:, 4:].prod(axis=1)) * (RADIUS / SIDE) ** 2
        num_drawn = int(np.searchsorted(areas, lacking)) or 1
        lines, twigs = _grow(spare[:num_drawn], macula, rng)
        _draw_lines(red, lines, beaded=False)
        spare = np.concatenate([spare[num_drawn:], twigs])


def _grow(vessels, macula, rng):
    """Let vessels grow: of each its pixels (n, 2), width and density; and the twigs that they
    may have, as rows.
    """
    start = vessels[:, None, :2]
    angle, bend, length = vessels[:, 2:5].T[..., None]
    steps = np.arange(int(length.max()))
    swing, speed, phase = rng.uniform((0.1, 0.2, 0), (0.25, 0.48, 6), (len(vessels), 3)).T[
        ..., None
    ]
    angles = angle + 0.04 * bend * steps + swing * np.sin(speed * steps + phase)
    ways = STEP * np.stack([np.cos(angles), np.sin(angles)], -1)
    points = start + np.cumsum(ways, 1) - ways  # the first lies where the vessel leaves its stem
    # none crosses the fovea
    stops = (np.hypot(*(points - macula).transpose(2, 0, 1)) < 0.18) | (steps >= length)
    ends = np.where(stops.any(axis=1), stops.argmax(axis=1), len(steps))
    lines = [
        (line[:end], *row)
        for line, end, row in zip(_pixels(points), ends, vessels[:, 5:].tolist(), strict=True)
    ]
    num_twigs = np.where(
        (vessels[:, 5] > MIN_BRANCHING) & (ends > 0), 2 + 2 * (vessels[:, 4] // 9), 0
    ).astype(int)
    old = np.repeat(np.arange(len(vessels)), num_twigs)
    at = rng.integers(0, ends[old])
    turn = rng.choice([-1, 1], len(old)) * rng.uniform(0.4, 0.9, len(old))
    new_length = np.floor(vessels[old, 4] * rng.uniform(0.4, 0.65, len(old)))
    twigs = [
        angles[old, at] + turn,
        -1.2 * turn,
        new_length,
        0.6 * vessels[old, 5],
        vessels[old, 6],
    ]
    return lines, np.column_stack([points[old, at], *twigs])


def _draw_lines(red, lines, *, beaded):
    """Draw vessels that thin towards their ends, long veins beaded if `beaded`: one call for
    each thickness.
    """
    pieces = defaultdict(list)
    for line, width, density in lines:
        parts = 20 if beaded and density == RED and len(line) > 10 else 4
        for k in range(parts if len(line) > 1 else 0):
            thick = width * RADIUS * (1 - 0.4 * k / parts) * (1.7 if parts > 4 and k % 2 else 1)
            piece = line[len(line) * k // parts : len(line) * (k + 1) // parts + 1]
            pieces[density, max(1, round(thick))].append(piece)
    for (density, thick), group in sorted(pieces.items(), key=lambda item: item[0]):
        cv2.polylines(red, group, False, density, thick, cv2.LINE_AA, 4)


def _colour(red, yellow, soft, disc, look, rng):
    """Colour the canvas in even light, (SIDE, SIDE, 3) float32: retina, optic disc, blood and
    yellow marks.
    """
    nerve = np.zeros_like(red)
    blur = rng.uniform(0.4, 1.1)
    clear = (1 - look.haze) / 255
    for size, density in ((rng.uniform(0.11, 0.135), 185), (rng.uniform(0.04, 0.075), 250)):
        axes = [round(size * stretch * RADIUS * 16) for stretch in (1, rng.uniform(1, 1.2))]
        cv2.ellipse(nerve, _pixels(disc), axes, 0, 0, 360, density, -1, cv2.LINE_AA, 4)
    red = cv2.GaussianBlur(red, (0, 0), blur)
    yellow = cv2.GaussianBlur(yellow, (0, 0), blur)
    soft = cv2.GaussianBlur(
        cv2.resize(soft, None, fx=0.25, fy=0.25, interpolation=cv2.INTER_AREA), (0, 0), 1
    )
    yellow = cv2.max(yellow, cv2.resize(soft, (SIDE, SIDE))).ravel()
    fair, dark, pale, absorbed = np.array(COLOURS).T
    retina = look.cast * (fair + look.pigment * (dark - fair))
    pale = look.cast * pale
    # of the light, by blood of each density
    passed = 1 - absorbed * clear * np.arange(256)[:, None]
    canvas = cv2.LUT(cv2.merge([red] * 3), np.float32(retina * passed)[:, None])
    left, top = (disc * RADIUS + SIDE / 2 - 60).astype(int)
    near = np.s_[top : top + 120, left : left + 120]
    nerve = cv2.GaussianBlur(nerve[near], (0, 0), 2.7)[..., None] * np.float32(clear)
    canvas[near] += nerve * np.float32((pale - retina) * passed)[red[near]]
    at = np.flatnonzero(yellow)
    pixels = canvas.reshape(-1, 3)
    below = pixels[at]
    pixels[at] = below + np.float32(clear) * yellow[at, None] * (np.float32(pale) - below)
    return canvas


@cache
def _shape_retina():
    """1 on the retina, 0 outside: (SIDE, SIDE) float32."""
    x = (np.arange(SIDE, dtype=np.float32) - SIDE / 2 + 0.5) / RADIUS
    return np.clip((1 - np.hypot(x, x[:, None])) * RADIUS + 0.5, 0, 1)


def _light(disc, macula, texture, rng):
    """The light on the canvas: flash, vignette, texture, macula and grain; none outside the
    retina.
    """
    x = ((np.arange(COARSE) + 0.5) / COARSE - 0.5) * SIDE / RADIUS
    vignette = rng.uniform(0.1, 0.5)
    light = np.full((COARSE, COARSE), 1 - vignette, np.float32)
    for at, width, height in (
        (rng.uniform(-0.2, 0.2, 2), 0.75, vignette),
        (disc, 0.4, 0.12),
        (macula, 0.2, -0.22),
    ):
        across, down = (np.exp(-(((x - centre) / width) ** 2) / 2) for centre in at)
        light += np.float32(height) * np.outer(down, across)
    for cells in (6, 24, 90):
        waves = rng.standard_normal((cells, cells), np.float32)
        light += texture * cv2.resize(waves, (COARSE, COARSE), interpolation=cv2.INTER_CUBIC)
    light = cv2.resize(light, (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)
    light += np.tile(
        rng.uniform(0.007, 0.035) * rng.standard_normal((SIDE // 3, SIDE // 3), np.float32), (3, 3)
    )
    # at times the flash is weak
    light *= rng.uniform(0.4, 0.6) if rng.random() < 0.07 else rng.uniform(0.9, 1.1)
    return light * _shape_retina()


def _photograph(canvas, lesions, eye, look, rng):
    """Place the retina, and its lesions, into the camera's frame: shifted, tilted, mirrored for
    a left eye, marked.
    """
    size = np.array([look.width, look.height])
    middle = (SIDE - 1) / 2
    radius = look.coverage * look.height / 2
    centre = (size - 1) / 2 + rng.normal(0, 0.015, 2) * look.height
    # looks away at times
    centre[0] += rng.choice([-1, 1]) * (rng.random() < 0.06) * (look.width / 2 - 0.75 * radius)
    tilt = rng.uniform(-25, 25) if rng.random() < 0.1 else rng.normal(0, 3)
    matrix = (
        cv2.getRotationMatrix2D((middle, middle), tilt, radius / RADIUS)
        + np.c_[np.zeros((2, 2)), centre - middle]
    )
    canvas, lesions = (
        (cv2.flip(x, 1) for x in (canvas, lesions)) if eye == "left" else (canvas, lesions)
    )
    image = cv2.warpAffine(canvas, matrix, size.tolist(), borderValue=[look.black] * 3)
    if look.mark == "tab":
        at = (centre + [0.72 * radius, -0.72 * radius]).astype(int).tolist()
        cv2.circle(image, at, int(radius / 20), canvas[SIDE // 2, SIDE // 2].tolist(), -1)
    if look.mark == "text":
        cv2.putText(
            image, "SYNTHETIC", (20, look.height - 20), 0, look.height / 1100, (190, 190, 190), 2
        )
    lesions = cv2.warpAffine(lesions, matrix, size.tolist()) > RED // 2
    return image, Circle(*centre.tolist(), radius), lesions


def draw_sample(
    out: Path,
    *,
    num_patients: int = 200,
    seed: int = 7,
    workers: int | None = None,
    progress: Callable | None = None,
) -> Path:
    """Draw both eyes of every patient into `out/images`, unless they are there already, and return
    `out`.

    `labels.csv` (image relative to `out`, patient, eye, grade) is written last, so that a
    half-drawn folder is drawn again; `circles.csv` has the true circle of each retina [px]. The
    same parameters give the same bytes for any number of workers; ValueError says that `out` holds
    something else. `progress` gets (done, total).
    """
    if num_patients < 1:
        raise ValueError(f"num_patients is {num_patients}: draw at least one")
    parameters = json.dumps({"data_kind": "synthetic", "num_patients": num_patients, "seed": seed})
    note = (out := Path(out)) / "sample.json"
    if (
        out.exists()
        and any(out.iterdir())
        and not (note.exists() and note.read_text() == parameters)
    ):
        raise ValueError(
            f"{out} holds something else than this sample: empty it or choose another folder"
        )
    if (out / "labels.csv").exists():
        return out
    (out / "images").mkdir(parents=True, exist_ok=True)
    write_text(note, parameters)
    grades = choose_grades(num_patients, seed)
    rows = []
    with map_over(workers or count_cpus()) as map_patients:
        for pair in map_patients(partial(_draw_patient, out, seed), enumerate(grades.tolist())):
            rows += pair
            if progress:
                progress(len(rows), grades.size)
    circles = [("image", *Circle._fields), *((row[0], *row[4]) for row in rows)]
    labels = [("image", "patient", "eye", "grade"), *(row[:4] for row in rows)]
    for name, table in (("circles.csv", circles), ("labels.csv", labels)):
        write_text(out / name, "".join(",".join(map(str, row)) + "\n" for row in table))
    return out


def draw_masks(sample: Path, rows: Sequence[int]) -> list[np.ndarray]:
    """Draw again where the lesions are of photographs that `draw_sample` drew: (height, width) bool
    each.

    Args:
        sample: the folder that it drew into.
        rows: lines of its labels.csv, the header being line 1.
    """
    drawn = json.loads((Path(sample) / "sample.json").read_text())
    grades = choose_grades(drawn["num_patients"], drawn["seed"])
    masks = {}
    for number in sorted({(row - 2) // 2 for row in rows}):
        rng = np.random.default_rng([drawn["seed"], number])
        look = draw_look(rng)
        for k, eye in enumerate(("left", "right")):
            masks[2 * number + k + 2] = draw_eye(int(grades[number, k]), eye, look, rng)[2]
    return [masks[row] for row in rows]


def _draw_patient(out, seed, numbered):
    """Write the photographs of a patient, a number and two grades; return rows: image, patient,
    eye, grade, circle.
    """
    number, grades = numbered
    patient = f"p{number:04d}"
    rng = np.random.default_rng([seed, number])
    rows = []
    look = draw_look(rng)
    for eye, grade in zip(("left", "right"), grades, strict=True):
        image, circle, _ = draw_eye(grade, eye, look, rng)
        rows.append((f"images/{patient}_{eye}.jpg", patient, eye, grade, circle))
        (out / rows[-1][0]).write_bytes(_encode(image, look.quality))
    return rows
