"""Execute the runs of a study on a machine of Colab or Kaggle, through the services' own CLIs.

session   one session: what is uploaded, started, watched, fetched and closed, the same for both
record    how far it is: asked, up, running, fetched, closed; on disk before the next call
colab     Colab's machine: the far side is started there, and each row comes back at once
kaggle    Kaggle's script: the far side needs nobody, and its rows come back at the end
client    a call of a service's command line, its error in one sentence, and patience
pack      what is uploaded: code, study file, prepared data
remote_script  what is done there
share     the part of a prepared folder that an upload needs
"""
