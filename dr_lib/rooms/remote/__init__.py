"""Colab and Kaggle from a terminal."""
