"""Execute a notebook in a Jupyter kernel of this interpreter; one that dies says why.

Run as a module, this is the process of one run.
"""

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any, BinaryIO

import nbformat
import papermill
from jupyter_client.kernelspec import NATIVE_KERNEL_NAME, KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import DeadKernelError

from dr_lib.errors import DrError
from dr_lib.processes import explain_end

START_S = 600  # that a kernel may take to start, on a slow disk


class Kernel(AsyncKernelManager):
    """A kernel that raises its last words."""

    log_file: BinaryIO  # gets what its process prints

    @property
    def kernel_spec(self) -> KernelSpec:
        """How the kernel is started: by this interpreter, whatever kernel.json says."""
        from ipykernel.kernelspec import get_kernel_dict  # IPython: as long as all else here

        return KernelSpec(**get_kernel_dict())

    async def start_kernel(self, **options: Any) -> None:
        """Start it; its output and that of its children goes to the log."""
        self._begin = self.log_file.seek(0, os.SEEK_END)
        await super().start_kernel(stdout=self.log_file, stderr=self.log_file, **options)

    async def _async_is_alive(self) -> bool:
        code = await self.provisioner.poll() if self.has_kernel else None
        if code is None or self.shutting_down:
            return await super()._async_is_alive()
        raise DeadKernelError(self._explain(code))

    is_alive = _async_is_alive

    def _explain(self, code: int) -> str:
        """Explain the death of the kernel by its exit status and by what it printed."""
        self.log_file.seek(self._begin)
        printed = self.log_file.read().decode(errors="replace")
        return f"the kernel {explain_end(code, printed)}"


def execute_notebook(
    path: Path,
    output: Path | None,
    parameters: dict[str, Any],
    log: Path,
    **options: Any,
) -> nbformat.NotebookNode:
    """Execute a notebook with papermill.

    Args:
        path: of the notebook.
        output: the executed notebook; None writes none.
        parameters: of the notebook.
        log: file that gets what the kernel's process prints, beside what it shows in cells.
        options: further ones of papermill.

    Raises:
        DrError: the kernel died.
        RuntimeError: it did not start in time.
        PapermillExecutionError: a cell stopped.
    """
    logging.getLogger("papermill").setLevel(logging.CRITICAL)  # what it would say is raised
    with log.open("ab+") as file:

        class Logged(Kernel):
            log_file = file

        try:
            return papermill.execute_notebook(
                str(path),
                output and str(output),
                parameters,
                kernel_name=NATIVE_KERNEL_NAME,
                kernel_manager_class=Logged,
                start_timeout=START_S,
                # else it keeps what libraries print, and takes it to the grave
                extra_arguments=["--log-level=ERROR", "--IPKernelApp.capture_fd_output=False"],
                **options,
            )
        except DeadKernelError as error:
            raise DrError(str(error)) from error


def main(notebook: str, output: str, log: str, parameters: str) -> None:
    """Execute the notebook of one run."""
    try:
        execute_notebook(
            Path(notebook),
            Path(output),
            json.loads(parameters),
            Path(log),
            progress_bar=False,
        )
    except DrError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
