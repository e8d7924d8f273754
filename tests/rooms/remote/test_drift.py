"""The clients as they are: what we call is parsed by their own parsers, and what we upload
passes their own checks.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from dr_lib.rooms.remote.colab import DEVICES as COLAB
from dr_lib.rooms.remote.kaggle import DEVICES as KAGGLE
from dr_lib.rooms.remote.kaggle import describe_script
from tests.runs.conftest import write_study

KAGGLE_CODE = "kaggle.api.kaggle_api_extended"
SENTENCES = [  # that we read, and where a client says them
    ("colab_cli.auth", "authorize colab-cli"),
    ("colab_cli.common", "' not found."),
    ("colab_cli.commands.session", "' not found."),
    (KAGGLE_CODE, "Authentication required"),
    (KAGGLE_CODE, "print(data, flush=True"),
    (KAGGLE_CODE, 'f"{message}\\n\\n{hint}"'),
    ("kaggle.cli", '"-W"'),
    (KAGGLE_CODE, "private Dataset is being created"),
    (KAGGLE_CODE, "successfully %s."),
    (KAGGLE_CODE, 'outcome, where = "pushed"'),
    (KAGGLE_CODE, "not valid dataset sources"),
    (KAGGLE_CODE, 'has status "%s"'),
    (KAGGLE_CODE, 'Failure message: "%s"'),
    (KAGGLE_CODE, "(Permission 'kernels.get' was denied)"),
    ("colab_cli.commands.utility", 'f"Version: {'),
    (KAGGLE_CODE, '"resource", "used", "remaining", "total", "refreshAt"'),
]
CHECK = Path(__file__).with_name("check_clients.py")


@pytest.mark.slow
def test_the_real_clients_take_what_we_call(cloud, clients, tmp_path, monkeypatch):
    """Every call of a session, every device and both metadata files: the real parsers and checks
    know them all, name each device as we do, and no data set or script is public."""
    path = write_study(cloud.house)
    for on, fault in (("colab:cpu", "forgets"), ("kaggle:t4x2", "dies")):
        monkeypatch.setenv("STAND_IN_FAULT", fault)
        assert cloud.run(path, on).exit_code == (fault == "dies")
    words = {(call[0], *(word for word in call[1:5] if word.isalpha())) for call in cloud.calls}
    asked = {("colab", "download"), ("kaggle", "kernels", "output")}
    asked |= {("kaggle", kind, "list") for kind in ("kernels", "datasets")}
    assert asked | {("kaggle", "kernels", "logs")} <= words
    (tmp_path / "job").mkdir()
    script = describe_script(
        "somebody/dr-kaggle-v5e8-1", "somebody/dr-0-data", KAGGLE["v5e8"][0]
    )
    (tmp_path / "job" / "kernel-metadata.json").write_text(json.dumps(script))
    (tmp_path / "job" / "remote_script.py").touch()
    shutil.copy(cloud.home / "dataset-metadata.json", tmp_path / "job")
    about = {
        "calls": cloud.calls,
        "colab": [options for options, _ in COLAB.values()],
        "folder": str(tmp_path / "job"),
    }
    about |= {"kaggle": [name for name, _ in KAGGLE.values()], "sentences": SENTENCES}
    asked = subprocess.run(
        [clients, CHECK], input=json.dumps(about), capture_output=True, text=True, cwd=tmp_path
    )
    assert asked.returncode == 0, asked.stderr
