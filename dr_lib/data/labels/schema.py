"""The columns that labels.csv, split tables and predictions.csv share, and their values."""

import re
import unicodedata
from collections.abc import Mapping

from dr_lib.data.labels.grades import GRADES

SIDES = ("train", "validation", "test")
EXCLUDED = "excluded"  # from the split, for the reason beside it
REJECTED = "rejected"  # could not be cropped, for the reason beside it
FACTS = ("camera", "age", "sex", "quality")  # as the label file has them, for subgroups

# predictions.csv: what is known of a photograph, and FACTS; one of the two kinds of probability
KNOWN = ("image_id", "patient_id", "group", "split", "reason", "eye", "grade", "referable")
OF_GRADES = [f"probability_{grade}" for grade in range(len(GRADES))]
OF_REFERABLE = "probability_referable"
COLUMNS = {  # what people call them, folded
    "image_id": "image imageid id_image imagem id_imagem foto retinografia arquivo file filename",
    "patient_id": "patient patientid id_patient patient_name subject subject_id paciente"
    " id_paciente paciente_id nome_do_paciente prontuario",
    "split": "set particao divisao",
    "eye": "olho laterality lateralidade",
    "grade": "grau",
    "referable": "encaminhavel",
    OF_REFERABLE: "probability probabilidade probabilidade_encaminhavel",
    **{column: f"probabilidade_{grade}" for grade, column in enumerate(OF_GRADES)},
    "gradable": "gradavel",
    "reason": "motivo",
    "visit": "visita",
    "dataset": "base",
    "model": "modelo",
    "age": "idade",
    "sex": "sexo gender genero",
    "quality": "qualidade",
}


def fold_name(text: str) -> str:
    """Fold a name to lower case without accents, with _ between words: grau_de_rd."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return re.sub(r"[\W_]+", "_", plain).strip("_")


def list_words(words: Mapping[str, str]) -> dict[str, str]:
    """Map people's words to ours."""
    return {other: word for word, others in words.items() for other in others.split()}
