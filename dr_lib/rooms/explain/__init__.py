"""Where on a photograph a model looks."""
