"""Kaggle's own client, imported once; each call is a fork: python kaggle_client.py ADDRESS LINE.

ADDRESS is of the service in place of Kaggle's, LINE is the socket that calls come by.
"""

import json
import os
import signal
import socket
import sys
import threading
import traceback

os.environ |= {"KAGGLE_USERNAME": "somebody", "KAGGLE_KEY": "none"}
from kagglesdk import kaggle_env

kaggle_env._env_to_endpoint[kaggle_env.KaggleEnv.PROD] = sys.argv[1]
from kaggle.cli import main

signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
with socket.socket(socket.AF_UNIX) as line:
    line.bind(sys.argv[2])
    line.listen()
    print("ready", flush=True)
    while True:
        caller, _ = line.accept()
        if not os.fork():
            break
        caller.close()
message, outputs, *_ = socket.recv_fds(caller, 2**16, 2)
for number, output in enumerate(outputs, 1):
    os.dup2(output, number)


def end_with_caller() -> None:
    """A call that is killed has no client."""
    caller.recv(1)
    os._exit(1)


threading.Thread(target=end_with_caller, daemon=True).start()
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
sys.argv = ["kaggle", *json.loads(message)]
status = 0
try:
    main()
except SystemExit as end:
    status = end.code if isinstance(end.code, int) else int(end.code is not None)
except BaseException:
    traceback.print_exc()
    status = 1
sys.stdout.flush()
sys.stderr.flush()
caller.send(bytes([status]))
os._exit(0)
