"""A service on this machine that answers Kaggle's own client: it keeps what is uploaded and runs
what is pushed.
"""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Script:
    """A script that was pushed, and its process."""

    def __init__(self, folder: Path, text: str, python: str):
        """Start it, in a folder that stands for /kaggle, and note how it ends."""
        (folder / "working").mkdir()
        (folder / "script.py").write_text(text.replace('"/kaggle/', f'"{folder}/'))
        self.state = "RUNNING"
        self.folder = folder
        self.process = subprocess.Popen(
            [python, "../script.py"],
            cwd=folder / "working",
            env={**os.environ, "KAGGLE_KERNEL_RUN_TYPE": "Batch"},
            stdout=(folder / "stdout").open("wb"),
            stderr=(folder / "stderr").open("wb"),
            start_new_session=True,
        )
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        self.state = "ERROR" if self.process.wait() else "COMPLETE"

    def read_log(self) -> str:
        """What it printed, as Kaggle keeps it: an array, an object a line."""
        entries = [
            json.dumps({"stream_name": name, "time": 1.5, "data": f"{line}\n"})
            for name in ("stdout", "stderr")
            for line in (self.folder / name).read_text().splitlines()
        ]
        return "[" + "\n,".join(entries) + "\n]"

    def end(self) -> None:
        """End it and all that it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def list_refs(slugs: Iterable[str], searched: str) -> list[dict[str, str]]:
    """The account's own, by a text in their names."""
    return [{"ref": f"somebody/{slug}"} for slug in slugs if searched in slug]


class KaggleService(ThreadingHTTPServer):
    """The requests that a session makes; `faults` holds by request what it answers first: a status,
    hang, cut (no answer), short (half of it), empty, a signal for `caller`, or 0 for a right one.
    """

    daemon_threads = True

    def __init__(self, home: Path, python: str):
        """Listen on a free port; scripts run with this Python, below the folder."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.home = home
        self.python = python
        self.caller = 0  # process
        self.scripts: dict[str, Script] = {}
        self.reset()

    def reset(self) -> None:
        """Forget everything, and end the scripts."""
        for script in self.scripts.values():
            script.end()
        self.blobs: dict[str, dict[str, Any]] = {}
        self.data_sets: dict[str, dict[str, Any]] = {}
        self.scripts = {}
        self.faults: dict[str, list[int | str]] = {}
        self.lost: list[str] = []  # scripts that were deleted unfetched, with how they were
        self.fetched: set[str] = set()
        self.uploaded: list[dict[str, Any]] = []  # data sets, those that were deleted too
        self.pushed: list[dict[str, Any]] = []
        self.quota_s = 3600  # that are used
        self.script = ""  # in place of what is pushed

    def answer(self, name: str, request: dict[str, Any]) -> dict[str, Any] | None:
        """The content of an answer; None for what is not there."""
        script = self.scripts.get(request.get("kernelSlug", ""))
        match name:
            case "GetAcceleratorQuotaStatistics":
                quota = {"timeUsed": f"{self.quota_s}s", "totalTimeAllowed": "108000s"}
                day = "2026-11-28T00:00:00Z"
                return {"quotaRefreshTime": day, "gpuQuota": quota, "tpuQuota": quota}
            case "StartBlobUpload":
                token = str(len(self.blobs))
                self.blobs[token] = {"name": request["name"]}
                return {"token": token, "createUrl": f"{self.address}/{token}"}
            case "CreateDataset":
                slug = request["slug"]
                self.data_sets[slug] = request
                self.uploaded.append(request)
                return {"status": "ok", "ref": slug, "url": f"{self.address}/{slug}"}
            case "GetDatasetStatus":
                return {"status": "READY"} if request["datasetSlug"] in self.data_sets else None
            case "SaveKernel":
                return self._start_script(request)
            case "GetKernelSessionStatus" if script:
                failed = {"failureMessage": "Your notebook was stopped"}
                return {"status": script.state, **(failed if script.state == "ERROR" else {})}
            case "ListKernelSessionOutput" if script:
                names = [path.name for path in (script.folder / "working").iterdir()]
                base = f"{self.address}/{script.folder.name}"
                files = [{"fileName": name, "url": f"{base}/{name}"} for name in names]
                return {"files": files, "log": script.read_log()}
            case "ListDatasets":
                return {"datasets": list_refs(self.data_sets, request["search"])}
            case "ListKernels":
                return {"kernels": list_refs(self.scripts, request["search"])}
            case "DeleteKernel" if script:
                slug = request["kernelSlug"]
                self.scripts.pop(slug).end()
                self.lost += [script.state] if slug not in self.fetched else []
                return {}
            case "DeleteDataset" if self.data_sets.pop(request["datasetSlug"], None):
                return {}
        return None

    def _start_script(self, request: dict[str, Any]) -> dict[str, Any]:
        self.pushed.append(request)
        slug = request["slug"].rpartition("/")[2]
        folder = self.home / slug
        (data_set,) = (name.rpartition("/")[2] for name in request["datasetDataSources"])
        inputs = folder / "input" / "datasets" / "somebody" / data_set
        inputs.mkdir(parents=True)
        for file in self.data_sets[data_set]["files"]:
            blob = self.blobs[file["token"]]
            (inputs / blob["name"]).write_bytes(blob["content"])
        self.scripts[slug] = Script(folder, self.script or request["text"], self.python)
        url = f"{self.address}/{slug}"
        return {"ref": f"/code/somebody/{slug}", "url": url, "versionNumber": 1}


class Handler(BaseHTTPRequestHandler):
    """Requests as Kaggle's client makes them."""

    server: KaggleService
    is_short = False
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:  # noqa: D102
        name = self.path.rpartition("/")[2]
        content = self._read()
        request = json.loads(content or "{}")
        # whether its name is free
        is_asked_before = name == "GetDatasetStatus" and not self.server.data_sets
        if is_asked_before or not self._fail(name):
            content = self.server.answer(name, request)
            missing = {"code": 404, "message": "Not Found"}
            status = 404 if content is None else 200
            self._send(status, json.dumps(missing if content is None else content).encode())

    def do_PUT(self) -> None:  # noqa: D102
        content = self._read()
        if not self._fail("PUT"):
            self.server.blobs[self.path.strip("/")]["content"] = content
            self._send(200, b"{}")

    def _fail(self, name: str) -> bool:
        """Give the next wrong answer to such a request, if there is one."""
        waiting = self.server.faults.get(name)
        fault = waiting.pop(0) if waiting else 0
        match fault:
            case 0 | "short":
                self.is_short = fault == "short"
                return False
            case "empty":
                self._send(200, b"{}")
            case "hang":
                time.sleep(20)
            case "SIGINT" | "SIGKILL" | "SIGTERM":
                os.kill(self.server.caller, signal.Signals[fault])
                time.sleep(1)
            case int():
                self._send(fault, json.dumps({"code": fault, "message": "Refused"}).encode())
        self.close_connection = True
        return True

    def do_GET(self) -> None:  # noqa: D102
        if self._fail("logs" if "/logs/stream/" in self.path else "GET"):
            return
        if "/logs/stream/" in self.path:
            script = self.server.scripts.get(self.path.rpartition("/")[2])
            log = script.read_log() if script else '{"code": 404}'
            self._send(200 if script else 404, log.encode())
            return
        _, slug, name = self.path.split("/")
        content = (self.server.home / slug / "working" / name).read_bytes()
        self._send(200, content)
        if not self.is_short:
            self.server.fetched.add(slug)

    def log_message(self, *arguments: object) -> None:  # noqa: D102
        pass

    def _read(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"]))

    def _send(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if self.is_short else content)
        self.close_connection = self.close_connection or self.is_short
