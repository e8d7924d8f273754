"""How many patients a study of accuracy needs, before anything is photographed."""

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.special import expit, logit

from dr_lib.errors import DrError
from dr_lib.evaluation.scores import check_share
from dr_lib.statistics.clustered import MIN_PATIENTS, Z
from dr_lib.statistics.intervals import UPPER

ASSURANCE = 0.8  # share of such studies whose interval is as narrow


class Design(NamedTuple):
    """What a study is to find, and in whom."""

    width: float  # of the 95 % interval
    prevalence: float  # share of referable eyes
    eyes: int = 1  # photographed, of each patient
    correlation: float = 0.5  # of the answers for the eyes of one patient, from 0 to 1


class Size(NamedTuple):
    """Patients whose photographs a study needs."""

    expected: int  # for the width on average, which half of such studies or fewer reach
    assured: int  # for the width in ASSURANCE of such studies


def find_auc_error(auc: np.ndarray, num_with: np.ndarray, num_eyes: float) -> np.ndarray:
    """Compute Newcombe's standard error of an AUC (2006), as Riley et al. do (2021, Stat. Med. 40):
    that of Hanley and McNeil (1982), with as many eyes of each kind as half of all.
    """
    half = num_eyes / 2 - 1
    variance = auc * (1 - auc) * (1 + half * (1 - auc) / (2 - auc) + half * auc / (1 + auc))
    return np.sqrt(variance / (num_with * (num_eyes - num_with)))


def find_share_error(share: np.ndarray, num_with: np.ndarray, num_eyes: float) -> np.ndarray:
    """Compute the standard error of a share of the eyes of one kind, as Riley et al. do (2024, BMC
    Med. Res. Methodol. 24).
    """
    return np.sqrt(share * (1 - share) / num_with)


def find_sizes(expected: Mapping[str, float], design: Design) -> dict[str, Size]:
    """Find how many patients each expected measure needs for an interval of a width.

    The eyes of a patient count by the design effect 1 + (eyes - 1) * correlation, as if they had
    the same label: with others the study is a little larger than need be.

    Args:
        expected: values of AUC, sensitivity and specificity; 0 leaves a measure out.
        design: of the study.

    Raises:
        DrError: a number is no share, no measure is given, or no study is large enough.
    """
    width, prevalence, eyes, correlation = design
    measures = {name: value for name, value in expected.items() if value}
    for name, value in {**measures, "width": width, "prevalence": prevalence}.items():
        check_share(name, value)
    if not measures:
        raise DrError("give what you expect: --auc, --sensitivity or --specificity")
    if not 0 <= correlation <= 1:
        raise DrError(f"correlation must be from 0 to 1, not {correlation:g}")
    per_patient = eyes / (1 + (eyes - 1) * correlation)  # eyes as if they were independent
    sizes = {}
    for name, value in measures.items():
        kind = 1 - prevalence if name == "specificity" else prevalence
        find_error = find_auc_error if name == "AUC" else find_share_error
        reaches = partial(_reaches, find_error, value, kind, width, per_patient)
        sizes[name] = Size(
            expected=_find_least(partial(reaches, assurance=0)),
            assured=_find_least(partial(reaches, assurance=ASSURANCE)),
        )
    return sizes


def _reaches(
    find_error: Callable,
    value: float,
    kind: float,
    width: float,
    per_patient: float,
    n: int,
    *,
    assurance: float,
) -> bool:
    """Whether n patients reach a width on average and, with an assurance, in that share of studies.

    The interval is that of an evaluation, on the logit scale by t. Studies differ in the eyes of
    the kind that they find, in their estimate and in its estimated variance.
    """
    num_eyes = n * per_patient
    num_with = num_eyes * kind
    error = find_error(value, num_with, num_eyes)
    is_enough = min(num_with, num_eyes - num_with) >= MIN_PATIENTS * per_patient
    if not assurance:
        return is_enough and 2 * Z * error <= width
    shares = (np.arange(40) + 0.5) / 40
    normal = stats.norm.ppf(shares)
    found = num_with + normal[:, None, None] * np.sqrt(num_with * (1 - kind))
    found = np.clip(found, 3, num_eyes - 3)
    estimate = np.clip(value + normal[:, None] * error, 0.001, 0.999)
    dof = np.minimum(found, num_eyes - found) - 1
    spread = find_error(estimate, found, num_eyes) * np.sqrt(stats.chi2.ppf(shares, dof) / dof)
    reach = stats.t.ppf(UPPER, dof) * spread / (estimate * (1 - estimate))
    widths = expit(logit(estimate) + reach) - expit(logit(estimate) - reach)
    return is_enough and (widths <= width).mean() >= assurance


def _find_least(is_enough: Callable[[int], bool]) -> int:
    """Find the least number of patients, which more of them keep enough."""
    most = 10_000_000  # patients; beyond that no study can be meant
    least = bisect_left(range(most), True, lo=3, key=is_enough)
    if least == most:
        raise DrError("no study is large enough: allow a wider interval")
    return least


def describe_study(
    sizes: dict[str, Size],
    expected: Mapping[str, float],
    design: Design,
) -> str:
    """Describe the size of a study for an ethics committee, in English and in Portuguese."""
    width, prevalence, eyes, correlation = design
    share = f"{100 * prevalence:g} %"
    patients = max(size.assured for size in sizes.values())
    values = ", ".join(f"{name} {expected[name]:g}" for name in sizes)
    alike = f" (correlation {correlation:g})" if eyes > 1 else ""
    english = (
        f"Sample size. We expect {values}, and that {share} of the photographed eyes are "
        f"referable. With {patients} patients, {eyes} photographed eye(s) in each{alike}, the 95 % "
        f"confidence interval will be at most {width:g} wide in at least {ASSURANCE:.0%} of such "
        "studies (Riley et al. 2021 and 2024; AUC: Newcombe 2006; design effect of the eyes of a "
        "patient). Patients whose photographs cannot be graded come in addition."
    )
    names = {"sensitivity": "sensibilidade", "specificity": "especificidade"}
    values = "; ".join(f"{names.get(name, name)} {expected[name]:g}" for name in sizes)
    alike = f" (correlação de {correlation:g})" if eyes > 1 else ""
    portuguese = (
        f"Tamanho da amostra. Esperamos {values}; e que {share} dos olhos fotografados "
        f"sejam encaminháveis. Com {patients} pacientes e {eyes} olho(s) fotografado(s) em cada "
        f"um{alike}, o intervalo de confiança de 95 % terá no máximo {width:g} de largura em "
        f"pelo menos {ASSURANCE:.0%} de estudos assim (Riley et al. 2021 e 2024; AUC: Newcombe "
        "2006; efeito do delineamento para os olhos de um paciente). Somam-se os pacientes cujas "
        "retinografias não puderem ser avaliadas."
    )
    decimal = re.compile(r"(?<=\d)\.(?=\d)")
    return (
        f"{english}\n\n{decimal.sub(',', portuguese).replace('%', ' %').replace('  %', ' %')}"
    )
