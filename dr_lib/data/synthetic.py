"""Generate synthetic fundus photographs, so that all runs without an account or a download.

They are no model of the disease: lesions follow the international scale (Wilkinson et al. 2003),
but are larger and clearer than in life, so that a small network finds them at 96 px. Colour alone
does not tell the grade: every eye gets an amount of red and of yellow that does not depend on it,
and what its lesions leave of that goes into healthy vessels and drusen. Camera, pigment and haze do
not depend on the grade either.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from dr_lib.data.photograph.crop import Circle
from dr_lib.data.photograph.pixels import encode_jpeg
from dr_lib.data.prepared.workers import map_over
from dr_lib.errors import DrError
from dr_lib.files import is_empty, write_json, write_text
from dr_lib.hardware.cpus import count_cpus

# Messidor-2 as adjudicated by Krause et al. 2018 (1017, 270, 347, 75, 35 of 1,744 photographs): 26
# % are referable.
GRADE_SHARES = (0.583, 0.155, 0.199, 0.043, 0.020)
SIDE = 600  # px of the square canvas
RADIUS = 292  # px of the retina on it; lengths without a unit are in radii
COARSE = 150  # px of the side on which light is drawn, but for its grain
# how densely blood and exudates are drawn, of 255
RED = 205
YELLOW = 215
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
STEP = 0.044  # of a vessel


class Look(NamedTuple):
    """What the photographs of a patient share: the camera, and the eyes except the lesions."""

    width: int
    height: int
    coverage: float  # diameter of the retina / height: above 1, top and bottom are cut
    cast: np.ndarray  # gain of red, green and blue
    black: int  # grey level of the background
    quality: int  # of the JPEG
    is_marked: bool  # in a corner
    pigment: float  # 0 fair to 1 dark
    texture: float
    haze: float  # share of the contrast that a clouded lens takes
    calibre: float  # of the widest vein


class Canvas(NamedTuple):
    """Drawing of an eye before it is coloured, as of a right eye: the nose is on the right."""

    disc: np.ndarray  # place of the optic disc
    macula: np.ndarray
    # density of blood, of exudates and of what has no sharp edge, (SIDE, SIDE) uint8
    red: np.ndarray
    yellow: np.ndarray
    soft: np.ndarray


class Vessel(NamedTuple):
    """A vessel before it is drawn."""

    start: np.ndarray  # its place on the optic disc, or on another vessel
    way: float  # direction [rad]
    bend: float
    length: int  # steps
    width: float
    density: float


def choose_grades(num_patients: int, seed: int) -> np.ndarray:
    """Distribute GRADE_SHARES over left and right eyes, fellow eyes mostly alike: (n, 2)."""
    rng = np.random.default_rng(seed)
    severity = rng.standard_normal((num_patients, 1))
    severity = severity + 0.25 * rng.standard_normal((num_patients, 2))
    rank = severity.ravel().argsort().argsort().reshape(num_patients, 2)
    return np.searchsorted(np.cumsum(GRADE_SHARES)[:-1], (rank + 0.5) / rank.size)


def draw_look(rng: np.random.Generator) -> Look:
    """Draw a patient's camera, pigment and vessels, for `draw_eye`.

    Example:
        >>> look = draw_look(np.random.default_rng(0))
        >>> 640 <= look.width <= 1280  # px
        True
    """
    width = rng.choice((640, 800, 1024, 1280))
    height = round(width / rng.choice((1, 4 / 3, 3 / 2)))
    cast = rng.uniform(0.85, 1.15) * rng.normal(1, (0.04, 0.06, 0.15))
    black = int(rng.integers(0, 16))
    quality = rng.integers(78, 97)
    is_marked = rng.random() < 0.5
    eyes = rng.uniform((0, 0.01, 0, 0.018), (1, 0.035, 0.25, 0.025)).tolist()
    return Look(width, height, rng.uniform(0.86, 1.06), cast, black, quality, is_marked, *eyes)


def draw_eye(
    grade: int, eye: str, look: Look, rng: np.random.Generator
) -> tuple[np.ndarray, Circle]:
    """Draw one photograph of a left or right eye; the grade (0-4) determines only the lesions.

    Returns:
        The photograph, (height, width, 3) uint8 RGB, and the circle of its retina, of which the
        frame may cut a part.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> photograph, circle = draw_eye(3, "right", draw_look(rng), rng)
        >>> photograph.shape[2]
        3
    """
    disc = np.array([rng.uniform(0.42, 0.62), rng.uniform(-0.12, 0.04)])
    canvas = Canvas(disc, disc + [-0.62, 0.07], *np.zeros((3, SIDE, SIDE), np.uint8))
    _draw_lesions(canvas, grade, rng)
    _draw_vessels(canvas, look.calibre, rng)
    light = cv2.merge([_draw_light(canvas, look.texture, rng)] * 3)
    retina = cv2.multiply(_colour(canvas, look, rng), light, dtype=cv2.CV_8U)
    return _photograph(np.maximum(retina, np.uint8(look.black)), eye, look, rng)


def _pixels(points):
    """Turn points into OpenCV's fixed-point pixels, in sixteenths."""
    return np.round((np.asarray(points) * RADIUS + SIDE / 2 - 0.5) * 16).astype(np.int32)


def _point(angles):
    """Turn angles, (n, 1), into unit vectors, (n, 2)."""
    return np.hstack([np.cos(angles), np.sin(angles)])


def _draw_spots(layer, places, radii, density, rng):
    """Draw one uneven round spot at each place."""
    angles = np.arange(24)[:, None] * np.pi / 12
    for place in places:
        waves = np.sin(2 * angles + rng.uniform(0, 6)) + np.sin(3 * angles + rng.uniform(0, 6))
        spot = rng.uniform(*radii) * (1 + 0.1 * waves) * _point(angles)
        cv2.fillPoly(layer, [_pixels(place + spot)], density, cv2.LINE_AA, 4)


def _draw_lesions(canvas, grade, rng):
    """Draw the lesions that define a grade, then as many drusen as the amount of yellow lacks."""
    disc, macula, red, yellow, soft = canvas
    amount = rng.uniform(1.5, 3.8)  # mean density over the canvas
    dots, blots, rings, wool = (
        rng.integers((most + 3) // 4, most + 1) for most in LESIONS[grade]
    )
    places = rng.uniform(-0.85, 0.85, (200, 2))
    places = places[(np.hypot(*places.T) < 0.85) & (np.hypot(*(places - disc).T) > 0.18)]
    _draw_spots(red, places[:dots], (0.012, 0.018), RED, rng)
    _draw_spots(red, places[dots:][:blots], (0.017, 0.045), RED, rng)
    for middle in macula + rng.normal(0, 0.25, (rings, 2)):
        angles = rng.uniform(0, 6) + rng.uniform(0, 4.5, (10, 1))
        ring = rng.uniform(0.07, 0.15, (10, 1)) * _point(angles)
        _draw_spots(yellow, middle + ring, (0.01, 0.024), YELLOW, rng)
    _draw_spots(soft, disc + rng.normal(0, 0.35, (wool, 2)), (0.04, 0.07), YELLOW, rng)
    if grade == 4:  # new vessels, and blood that has sunk in front of the retina
        tufts = rng.normal(0, 0.004, (24, 20, 2)).cumsum(1).cumsum(1)
        tufts = _pixels(tufts + disc + rng.normal(0, 0.1, 2))
        for tuft in tufts:
            cv2.polylines(red, [tuft], False, RED, 1, cv2.LINE_AA, 4)
        boat = np.array(cv2.ellipse2Poly((0, 0), (100, 75), 0, 0, 180, 15))
        boat = boat * rng.uniform(0.0015, 0.0028)
        boat = _pixels(macula + rng.normal(0, 0.25, 2) + boat)
        cv2.fillPoly(red, [boat], RED, cv2.LINE_AA, 4)
    while cv2.mean(yellow)[0] + cv2.mean(soft)[0] < amount:
        _draw_spots(soft, macula + rng.normal(0, 0.35, (1, 2)), (0.02, 0.07), 170, rng)


def _draw_vessels(canvas, calibre, rng):
    """Draw arcades around the macula, stems to the nose, then twigs until the eye is red enough."""
    amount = rng.uniform(6, 10) - cv2.mean(canvas.red)[0]  # mean density over the canvas
    stems = []
    for share, density in ((0.7, RED * 0.65), (1, RED)):  # arteries, veins
        for way, bend, length in STEMS:
            width = calibre * share * (length + 35) / 70
            way = way + rng.normal(0, 0.12)
            stems.append(Vessel(canvas.disc, way, bend, length, width, density))
    branching = [(stem, *_draw_vessel(canvas, stem, rng)) for stem in stems]
    amount = amount + cv2.mean(canvas.red)[0]
    while cv2.mean(canvas.red)[0] < amount:
        vessel, points, ways = branching[rng.integers(len(branching))]
        at = rng.integers(len(points))
        turn = rng.choice([-1, 1]) * rng.uniform(0.4, 0.9)
        length = int(vessel.length * rng.uniform(0.4, 0.65)) + 1
        width = 0.6 * vessel.width
        twig = Vessel(points[at], ways[at] + turn, -1.2 * turn, length, width, vessel.density)
        drawn = _draw_vessel(canvas, twig, rng)
        if width > 0.007:  # the width from which on a vessel has twigs
            branching.append((twig, *drawn))


def _draw_vessel(canvas, vessel, rng):
    """Draw a vessel that thins towards its end: its points, (n, 2), and directions, (n,)."""
    steps = np.arange(vessel.length)
    swing, speed, phase = rng.uniform((0.1, 0.2, 0), (0.25, 0.48, 6))
    ways = vessel.way + 0.04 * vessel.bend * steps + swing * np.sin(speed * steps + phase)
    points = vessel.start + STEP * np.cumsum(_point(ways[:, None]), axis=0)
    # none crosses the fovea
    is_far = np.hypot(*(points - canvas.macula).T) > 0.18
    end = max(1, int(is_far.cumprod().sum()))
    line = _pixels([vessel.start, *points[:end]])
    for k in range(4):
        thick = max(1, round(vessel.width * RADIUS * (1 - 0.1 * k)))
        piece = line[len(line) * k // 4 : len(line) * (k + 1) // 4 + 1]
        cv2.polylines(canvas.red, [piece], False, vessel.density, thick, cv2.LINE_AA, 4)
    return points[:end], ways[:end]


def _colour(canvas, look, rng):
    """Colour the canvas in even light, (SIDE, SIDE, 3) float32."""
    blur = rng.uniform(0.4, 1.1)
    clear = np.float32((1 - look.haze) / 255)
    fair, dark, pale, absorbed = np.array(COLOURS).T
    retina = look.cast * (fair + look.pigment * (dark - fair))
    pale = look.cast * pale
    # of the light, by blood of each density
    passed = 1 - absorbed * ((1 - look.haze) / 255) * np.arange(256)[:, None]
    disc = _draw_disc(canvas.disc, rng)
    red = cv2.GaussianBlur(canvas.red, (0, 0), blur)
    colours = cv2.LUT(cv2.merge([red] * 3), np.float32(retina * passed)[:, None])

    left, top = (canvas.disc * RADIUS + SIDE / 2 - 60).astype(int)
    near = np.s_[top : top + 120, left : left + 120]
    disc = cv2.GaussianBlur(disc[near], (0, 0), 2.7)[..., None] * clear
    colours[near] += disc * np.float32((pale - retina) * passed)[red[near]]

    yellow = cv2.GaussianBlur(canvas.yellow, (0, 0), blur)
    soft = cv2.resize(canvas.soft, None, fx=0.25, fy=0.25, interpolation=cv2.INTER_AREA)
    soft = cv2.resize(cv2.GaussianBlur(soft, (0, 0), 1), (SIDE, SIDE))
    yellow = cv2.max(yellow, soft)
    at = yellow > 0
    colours[at] += clear * yellow[at, None] * (np.float32(pale) - colours[at])
    return colours


def _draw_disc(place, rng):
    """Draw the optic disc and the paler cup in it, by their density: (SIDE, SIDE) uint8."""
    layer = np.zeros((SIDE, SIDE), np.uint8)
    for size, density in ((rng.uniform(0.11, 0.135), 185), (rng.uniform(0.04, 0.075), 250)):
        axes = [round(size * stretch * RADIUS * 16) for stretch in (1, rng.uniform(1, 1.2))]
        cv2.ellipse(layer, _pixels(place), axes, 0, 0, 360, density, -1, cv2.LINE_AA, 4)
    return layer


def _draw_light(canvas, texture, rng):
    """Draw the light: flash, vignette, texture, macula and grain; none outside the retina."""
    x = ((np.arange(COARSE) + 0.5) / COARSE - 0.5) * SIDE / RADIUS
    vignette = rng.uniform(0.1, 0.5)
    light = np.full((COARSE, COARSE), 1 - vignette, np.float32)
    flash = rng.uniform(-0.2, 0.2, 2)
    for place, width, height in (
        (flash, 0.75, vignette),
        (canvas.disc, 0.4, 0.12),
        (canvas.macula, 0.2, -0.22),
    ):
        across, down = (np.exp(-(((x - centre) / width) ** 2) / 2) for centre in place)
        light += np.float32(height) * np.outer(down, across)
    for cells in (6, 24, 90):
        waves = rng.standard_normal((cells, cells), np.float32)
        light += texture * cv2.resize(waves, (COARSE, COARSE), interpolation=cv2.INTER_CUBIC)
    light = cv2.resize(light, (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)
    strength = rng.uniform(0.007, 0.035)
    grain = strength * rng.standard_normal((SIDE // 3, SIDE // 3), np.float32)
    light += np.tile(grain, (3, 3))
    # at times the flash is weak
    light *= rng.uniform(0.4, 0.6) if rng.random() < 0.07 else rng.uniform(0.9, 1.1)
    x = (np.arange(SIDE, dtype=np.float32) - SIDE / 2 + 0.5) / RADIUS
    return light * np.clip((1 - np.hypot(x, x[:, None])) * RADIUS + 0.5, 0, 1)


def _photograph(retina, eye, look, rng):
    """Place the retina in the camera's frame: shifted, tilted, marked."""
    size = look.width, look.height
    middle = (SIDE - 1) / 2
    radius = look.coverage * look.height / 2
    centre = np.subtract(size, 1) / 2 + rng.normal(0, 0.015, 2) * look.height
    # looks away at times
    centre[0] += rng.choice([-1, 1]) * (rng.random() < 0.06) * (look.width / 2 - 0.75 * radius)
    tilt = rng.uniform(-25, 25) if rng.random() < 0.1 else rng.normal(0, 3)
    if eye == "left":
        retina = cv2.flip(retina, 1)
    matrix = cv2.getRotationMatrix2D((middle, middle), tilt, radius / RADIUS)
    matrix[:, 2] += centre - middle
    image = cv2.warpAffine(retina, matrix, size, borderValue=[look.black] * 3)
    if look.is_marked:
        at = 20, look.height - 20
        cv2.putText(image, "SYNTHETIC", at, 0, look.height / 1100, (190, 190, 190), 2)
    return image, Circle(*centre.tolist(), radius)


def draw_sample(
    out: Path,
    *,
    num_patients: int = 200,
    seed: int = 7,
    workers: int | None = None,
    progress: Callable | None = None,
) -> Path:
    """Draw both eyes of every patient into `out/images`; return `out`, which is new or empty.

    `labels.csv` (image relative to `out`, patient, eye, grade) is written last. The same parameters
    give the same bytes for any number of workers. `progress` gets (done, total).

    Raises:
        DrError: `out` holds something.
    """
    out = Path(out)
    if not is_empty(out):
        raise DrError(f"{out} holds other files: empty it, or choose another folder")
    (out / "images").mkdir(parents=True)
    note = {"data_kind": "synthetic", "num_patients": num_patients, "seed": seed}
    write_json(out / "sample.json", note)
    grades = choose_grades(num_patients, seed)
    rows = []
    with map_over(count_cpus() if workers is None else workers) as map_patients:
        for drawn in map_patients(
            partial(_draw_patient, out, seed), enumerate(grades.tolist())
        ):
            rows += drawn
            if progress:
                progress(len(rows), grades.size)
    labels = "".join(f"{row}\n" for row in ["image,patient,eye,grade", *rows])
    write_text(out / "labels.csv", labels)
    return out


def _draw_patient(out, seed, numbered):
    """Write the photographs of a patient, given as a number and two grades; return their rows of
    labels.csv.
    """
    number, grades = numbered
    patient = f"p{number:04d}"
    rng = np.random.default_rng([seed, number])
    look = draw_look(rng)
    rows = []
    for eye, grade in zip(("left", "right"), grades, strict=True):
        image, _ = draw_eye(grade, eye, look, rng)
        name = f"images/{patient}_{eye}.jpg"
        rows.append(f"{name},{patient},{eye},{grade}")
        (out / name).write_bytes(encode_jpeg(image, look.quality))
    return rows
