"""Execute the runs of a study on a machine of Colab or Kaggle, through the services' own CLIs.

commands       list the runs, announce the upload, and make one session for them
session        upload, start, watch, fetch and delete, the same for both services
colab          Colab's machine: each row is downloaded after its run
kaggle         Kaggle's unattended script: rows are downloaded at its end
client         a call of a service's client, its error in one sentence, and patience
pack           the upload: code, study file, and the part of a prepared folder that it needs
remote_script  what the remote machine executes
"""
