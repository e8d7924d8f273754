"""Frameworks, their kernels, and what factors do to time: paper C."""
