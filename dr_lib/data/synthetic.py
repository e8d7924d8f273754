"""Draw fundus photographs, so that everything runs on a fresh machine without an account or a download.

They are drawings, not a model of the disease. Lesions follow the international scale (Wilkinson et al. 2003) but are
larger and more distinct than in life, so that a small network finds them at 96 px. Colour alone does not tell the
grade: every eye gets an amount of red and of yellow whatever its grade, and what its lesions leave of it goes into
healthy vessels, drusen and reflexes. Camera, pigment and haze know nothing of the grade.
"""

import csv
import json
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

# Messidor-2 as adjudicated by Krause et al. 2018 (1017, 270, 347, 75, 35 of 1,744 photographs): 26 % are referable.
GRADE_SHARES = (0.583, 0.155, 0.199, 0.043, 0.020)
SIDE = 900  # px of the square canvas on which a retina is drawn before the camera takes it
RADIUS = 440  # px of the retina on that canvas; lengths without a unit are fractions of it
RED, YELLOW = 205, 215  # how densely blood and exudates are drawn, of 255
# The most microaneurysms, haemorrhages, rings of hard exudates and cotton wool spots by grade; a third at the least.
LESIONS = ((0, 0, 0, 0), (5, 0, 0, 0), (12, 18, 3, 0), (16, 32, 3, 6), (12, 20, 2, 2))
# Direction [rad, clockwise from the nose of a right eye], bend and length of the vessels that leave the optic disc.
STEMS = ((-1.8, -1.2, 70), (1.8, 1.2, 70), (-0.8, 0.3, 34), (0.8, -0.3, 34), (-2.6, -0.3, 16), (2.7, 0.2, 16))
CAMERAS = (  # the first seven fields of Look
    (2048, 1536, 0.96, (1.00, 1.00, 1.00), 2, 92, "tab"),
    (2048, 1365, 1.10, (1.06, 0.92, 0.85), 0, 90, ""),
    (1600, 1200, 0.94, (0.96, 1.06, 0.90), 9, 88, "text"),
    (1440, 960, 0.97, (1.00, 0.95, 1.20), 4, 95, "tab"),
    (1280, 1280, 0.98, (1.08, 1.00, 0.70), 1, 85, ""),
    (1024, 768, 1.06, (0.95, 0.98, 1.10), 14, 80, "text"),
)


class SampleFolderError(ValueError):
    """The folder holds something else than the sample asked for."""


class Look(NamedTuple):
    """What the photographs of a patient share: the camera, and the eyes but for their lesions."""

    width: int
    height: int
    coverage: float  # diameter of the retina / height: above 1, top and bottom are cut
    cast: tuple[float, float, float]  # gain of red, green and blue
    black: int  # grey level of the background
    quality: int  # of the JPEG
    mark: str  # tab, text or nothing
    colour: tuple[float, float, float]  # red, green and blue of the retina
    vignette: float
    texture: float
    noise: float
    calibre: float  # px of the widest vein on the canvas
    blur: float  # px on the canvas
    haze: float  # share of the contrast that a clouded lens takes


def draw_look(rng: np.random.Generator) -> Look:
    """Draw a patient's camera, pigment and vessels."""
    camera = CAMERAS[rng.integers(len(CAMERAS))]
    colour = np.array([226, 126, 70]) - rng.beta(1.5, 1.5) * np.array([76, 56, 34])  # from fair to dark
    colour *= rng.uniform(0.85, 1.12) * rng.normal(1, 0.04, 3) * camera[3]
    ranges = ((0.1, 0.5), (0.02, 0.07), (0.01, 0.05), (8, 11), (0.6, 1.6), (0, 0.25))
    return Look(*camera, tuple(colour.tolist()), *(rng.uniform(*r) for r in ranges))


def draw_eye(
    grade: int, eye: str, look: Look, rng: np.random.Generator
) -> tuple[np.ndarray, tuple[float, float, float]]:
    """Draw one photograph.

    Args:
        grade: 0-4; chooses the lesions and nothing else.
        eye: left or right; the optic disc lies on the side of the nose, at the right of a right eye.

    Returns:
        (height, width, 3) uint8 RGB; and x, y, radius of the retina in it [px], of which the frame may cut a part.
    """
    disc = np.array([rng.uniform(0.42, 0.62), rng.uniform(-0.12, 0.04)])  # of a right eye, y downwards
    macula = disc + [-0.62, 0.07]
    red, yellow, soft = np.zeros((3, SIDE, SIDE), np.uint8)
    _draw_lesions(red, yellow, soft, disc, macula, grade, rng)
    _draw_drusen(yellow, soft, disc, macula, rng)
    _draw_vessels(red, disc, macula, look.calibre, rng, beaded=grade == 3)
    canvas = _colour(red, yellow, soft, disc, look, rng) * _light(disc, macula, look, rng)[..., None]
    return _photograph(np.clip(canvas, look.black, 255).astype(np.uint8), eye, look, rng)


def _pixels(points):
    """Turn points into OpenCV's fixed-point pixels, in sixteenths."""
    return np.round((np.asarray(points) * RADIUS + SIDE / 2 - 0.5) * 16).astype(np.int32)


def _amount(canvas):
    """The share of the retina that is drawn on, weighted by density."""
    return cv2.mean(canvas)[0] / 255 * SIDE**2 / (np.pi * RADIUS**2)


def _draw_spots(canvas, places, radii, density, rng):
    """Draw one ragged round spot at each place."""
    angles = np.arange(12)[:, None] * np.pi / 6
    for place in places:
        spot = rng.uniform(*radii) * rng.uniform(0.8, 1.2, (12, 1)) * np.hstack([np.cos(angles), np.sin(angles)])
        cv2.fillPoly(canvas, [_pixels(place + spot)], density, cv2.LINE_AA, 4)


def _draw_lesions(red, yellow, soft, disc, macula, grade, rng):
    """Draw what a grade is known by."""
    dots, blots, rings, wool = (rng.integers((most + 2) // 3, most + 1) for most in LESIONS[grade])
    places = rng.uniform(-0.85, 0.85, (200, 2))
    places = places[(np.hypot(*places.T) < 0.85) & (np.hypot(*(places - disc).T) > 0.18)]
    _draw_spots(red, places[:dots], (0.012, 0.018), RED, rng)
    _draw_spots(red, places[dots:][:blots], (0.02, 0.048), RED, rng)
    for middle in macula + rng.normal(0, 0.25, (rings, 2)):
        angles = rng.uniform(0, 6) + rng.uniform(0, 4.5, (10, 1))
        ring = rng.uniform(0.07, 0.15, (10, 1)) * np.hstack([np.cos(angles), np.sin(angles)])
        _draw_spots(yellow, middle + ring, (0.01, 0.024), YELLOW, rng)
    _draw_spots(soft, disc + rng.normal(0, 0.35, (wool, 2)), (0.04, 0.07), YELLOW, rng)
    if grade == 4:  # new vessels, and blood that has sunk in front of the retina
        for tuft in rng.normal(0, 0.03, (24, 14, 2)).cumsum(1) + disc + rng.normal(0, 0.1, 2):
            cv2.polylines(red, [_pixels(tuft)], False, RED, 2, cv2.LINE_AA, 4)
        boat = np.array(cv2.ellipse2Poly((0, 0), (100, 75), 0, 0, 180, 15)) * rng.uniform(0.0015, 0.0028)
        cv2.fillPoly(red, [_pixels(macula + rng.normal(0, 0.25, 2) + boat)], RED, cv2.LINE_AA, 4)


def _draw_drusen(yellow, soft, disc, macula, rng):
    """Add drusen, and streaks of light reflected around the optic disc, up to this eye's amount of yellow."""
    amount = rng.uniform(0.010, 0.024)
    while _amount(yellow) + _amount(soft) < amount:
        if rng.random() < 0.5:
            _draw_spots(soft, macula + rng.normal(0, 0.4, (1, 2)), (0.03, 0.08), YELLOW, rng)
        else:
            axes, start = [round(rng.uniform(0.25, 0.8) * RADIUS * 16)] * 2, rng.integers(360)
            end, width = start + rng.integers(8, 30), int(rng.integers(2, 6))
            cv2.ellipse(yellow, _pixels(disc), axes, 0, start, end, YELLOW, width, cv2.LINE_AA, 4)


def _draw_vessels(red, disc, macula, calibre, rng, *, beaded):
    """Grow arcades around the macula and shorter stems to the nose, then twigs up to this eye's amount of red."""
    left, todo, spare = rng.uniform(0.03, 0.05) - _amount(red), [], []
    for width, density in ((calibre * 0.7, RED * 0.65), (calibre, RED)):  # arteries, veins
        todo += [(disc, angle + rng.normal(0, 0.12), bend, n, width, density) for angle, bend, n in STEMS]
    while todo:
        twigs = _draw_vessel(red, *todo.pop(0), macula, rng, beaded=beaded)
        todo, spare = todo + twigs[::2], spare + twigs[1::2]
    amount = _amount(red) + left
    while spare and _amount(red) < amount:
        spare += _draw_vessel(red, *spare.pop(rng.integers(len(spare))), macula, rng)


def _draw_vessel(red, start, angle, bend, length, width, density, macula, rng, *, beaded=False):
    """Draw a vessel that thins towards its end, a long vein as a string of beads if asked; return its possible twigs."""
    t = np.arange(length) / 50
    angles = angle + bend * t + rng.uniform(0.1, 0.25) * np.sin(rng.uniform(5, 12) * t + rng.uniform(0, 6))
    line = start + 0.022 * np.cumsum(np.stack([np.cos(angles), np.sin(angles)], 1), 0)
    line = line[: np.append(np.hypot(*(line - macula).T) < 0.18, True).argmax()]  # none crosses the fovea
    parts = 20 if beaded and density == RED and len(line) > 20 else 4
    for k, piece in enumerate(np.array_split(np.arange(len(line)), parts) if len(line) >= parts else ()):
        thick = round(width * (1 - 0.4 * k / parts) * (1.7 if parts > 4 and k % 2 else 1))
        points = _pixels(line[piece[0] : piece[-1] + 2])
        cv2.polylines(red, [points], False, density, max(1, thick), cv2.LINE_AA, 4)
    twigs = []
    for at in rng.integers(0, len(line), 2 + 2 * (length // 18)) if width > 3 and len(line) else ():
        side, shorter = rng.choice([-1, 1]), int(length * rng.uniform(0.4, 0.65))
        twigs.append((line[at], angles[at] + side * rng.uniform(0.4, 0.9), -0.8 * side, shorter, width * 0.6, density))
    return twigs


def _light(disc, macula, look, rng):
    """The light on the canvas: flash, vignette, texture, macula and grain; none outside the retina."""
    x = (np.arange(SIDE, dtype=np.float32) - SIDE / 2 + 0.5) / RADIUS
    light = np.full((SIDE, SIDE), 1 - look.vignette, np.float32)
    hills = ((rng.uniform(-0.2, 0.2, 2), 0.75, look.vignette), (disc, 0.4, 0.12), (macula, 0.2, -0.22))
    for at, width, height in hills:
        across, down = (np.exp(-(((x - centre) / width) ** 2) / 2) for centre in at)
        light += np.outer(np.float32(height) * down, across)
    for cells in (6, 24, 90):
        waves = look.texture / 2 * rng.standard_normal((cells, cells), np.float32)
        light += cv2.resize(waves, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC)
    light += np.tile(look.noise * rng.standard_normal((SIDE // 3, SIDE // 3), np.float32), (3, 3))
    light *= rng.uniform(0.4, 0.6) if rng.random() < 0.07 else rng.uniform(0.9, 1.1)  # at times the flash is weak
    return light * np.clip((1 - np.sqrt(x**2 + x[:, None] ** 2)) * RADIUS + 0.5, 0, 1)


def _colour(red, yellow, soft, disc, look, rng):
    """Colour the canvas in even light: retina, optic disc, blood and yellow marks."""
    nerve = np.zeros_like(red)
    for size, density in ((rng.uniform(0.11, 0.135), 185), (rng.uniform(0.04, 0.075), 250)):
        axes = [round(size * stretch * RADIUS * 16) for stretch in (1, rng.uniform(1, 1.2))]
        cv2.ellipse(nerve, _pixels(disc), axes, 0, 0, 360, density, -1, cv2.LINE_AA, 4)
    soft = cv2.GaussianBlur(cv2.resize(soft, None, fx=0.25, fy=0.25, interpolation=cv2.INTER_AREA), (0, 0), 1.5)
    red, yellow, nerve = (
        cv2.GaussianBlur(a, (0, 0), w) for a, w in ((red, look.blur), (yellow, look.blur), (nerve, 4))
    )
    clear = np.float32((1 - look.haze) / 255)
    red, yellow, nerve = red * clear, cv2.max(yellow, cv2.resize(soft, (SIDE, SIDE))) * clear, nerve * clear
    canvas = np.empty((SIDE, SIDE, 3), np.float32)
    for c, (pale, absorbed) in enumerate(((252, 0.55), (216, 0.85), (150, 0.85))):
        pale, retina = np.float32(pale * look.cast[c]), np.float32(look.colour[c])
        plane = (retina + nerve * (pale - retina)) * (1 - np.float32(absorbed) * red)
        canvas[..., c] = plane + yellow * (pale - plane)
    return canvas


def _photograph(canvas, eye, look, rng):
    """Place the retina into the camera's frame: shifted, tilted, mirrored for a left eye, marked."""
    size, radius = np.array([look.width, look.height]), look.coverage * look.height / 2
    centre = (size - 1) / 2 + rng.normal(0, 0.02, 2) * look.height
    if rng.random() < 0.06:  # the patient looks away
        centre[0] += rng.choice([-1, 1]) * (look.width / 2 - 0.75 * radius)
    tilt = np.radians(rng.uniform(-25, 25) if rng.random() < 0.1 else rng.normal(0, 3))
    turn = np.array([[np.cos(tilt), -np.sin(tilt)], [np.sin(tilt), np.cos(tilt)]]) * radius / RADIUS
    turn[:, 0] *= -1 if eye == "left" else 1
    matrix = np.column_stack([turn, centre - turn @ np.full(2, SIDE / 2 - 0.5)])
    image = cv2.warpAffine(canvas, matrix, size.tolist(), borderValue=[look.black] * 3)
    if look.mark == "tab":
        at = (centre + 0.72 * radius * np.array([1, -1])).astype(int)
        cv2.circle(image, at, int(radius * 0.05), canvas[SIDE // 2, SIDE // 2].tolist(), -1)
    if look.mark == "text":
        cv2.putText(image, "DRAWN", (size * [0.02, 0.98]).astype(int), 0, look.height / 1100, (190, 190, 190), 2)
    return image, (*centre.tolist(), radius)


def draw_sample(
    out: Path,
    *,
    num_patients: int = 200,
    seed: int = 7,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Draw both eyes of every patient into `out/images`, unless they are there already, and return `out`.

    `labels.csv` (image relative to `out`, patient, eye, grade) is written last, so that a half-drawn folder is drawn
    again; `circles.csv` has the true circle of each retina [px]. The same parameters give the same bytes for any
    number of workers; `progress` is called with the numbers of photographs drawn and wanted.

    Raises:
        SampleFolderError: `out` holds something else.
    """
    out, drawn = Path(out), {"data_kind": "drawn", "num_patients": num_patients, "seed": seed}
    note = out / "sample.json"
    if out.exists() and any(out.iterdir()) and not (note.exists() and json.loads(note.read_text()) == drawn):
        raise SampleFolderError(f"{out} holds something else than this sample: empty it or choose another folder")
    if (out / "labels.csv").exists():
        return out
    (out / "images").mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps(drawn))
    grades, rows = _choose_grades(num_patients, seed), []
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), cv2.setNumThreads, (1,)) as pool:
        jobs = [pool.submit(_draw_patient, out, number, pair, seed) for number, pair in enumerate(grades)]
        for job in as_completed(jobs):
            rows += job.result()
            if progress:
                progress(len(rows), grades.size)
    _write_table(out / "circles.csv", ["image", "x", "y", "radius"], sorted((row[0], *row[4]) for row in rows))
    _write_table(out / "labels.csv", ["image", "patient", "eye", "grade"], sorted(row[:4] for row in rows))
    return out


def _choose_grades(num_patients, seed):
    """Share the grades out over the eyes, (num_patients, 2), a patient's two eyes mostly alike."""
    rng = np.random.default_rng(seed)
    severity = rng.standard_normal((num_patients, 1)) + 0.25 * rng.standard_normal((num_patients, 2))
    rank = severity.ravel().argsort().argsort().reshape(num_patients, 2)
    return np.searchsorted(np.cumsum(GRADE_SHARES)[:-1], (rank + 0.5) / rank.size)


def _draw_patient(out, number, grades, seed):
    """Write the photographs of a patient; return their rows: image, patient, eye, grade, circle."""
    rng, rows = np.random.default_rng([seed, number]), []
    look = draw_look(rng)
    for eye, grade in zip(("left", "right"), grades.tolist(), strict=True):
        image, circle = draw_eye(grade, eye, look, rng)
        path = f"images/p{number:04d}_{eye}.jpg"
        jpeg = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, look.quality])[1]
        (out / path).write_bytes(jpeg)
        rows.append((path, f"p{number:04d}", eye, grade, circle))
    return rows


def _write_table(path, header, rows):
    """Write a CSV under another name and rename it, so that it is whole or not there."""
    partial = path.with_suffix(".partial")
    with partial.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    os.replace(partial, path)
