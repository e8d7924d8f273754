"""Makes the runs of a study on a machine of Colab or Kaggle, by the services' own command lines.

session   one session: what is uploaded, allocated, run, fetched, and stopped whatever happens
colab     Colab: one run after another, its row fetched after each
kaggle    Kaggle: all runs in one session that needs nobody, their rows fetched at its end
client    a call of a service's command line, and its error in one sentence
pack      what is uploaded: code, study file, prepared data
far_side  what is done there
"""
