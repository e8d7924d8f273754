import time
from tests.runs.conftest import write_study

def test_try(cloud):
    path = write_study(cloud.house, parameters={"fail_at": 1, "pause_s": 1.0})
    for on in ("colab:cpu", "kaggle:cpu"):
        t = time.time()
        r = cloud.run(path, on)
        print(r.output, r.exit_code, time.time() - t)
        if r.exception and not isinstance(r.exception, SystemExit):
            import traceback; traceback.print_exception(r.exception)
    for c in cloud.calls: print(c)
    print(cloud.sessions, cloud.list_left())
    import subprocess
    print(subprocess.run(f"find {cloud.house}/papermill_runs; for f in {cloud.house}/papermill_runs/trial/logs/*; do echo $f; tail -3 $f; done; cat {cloud.house}/papermill_runs/trial/rows/*", shell=True, capture_output=True, text=True).stdout)
