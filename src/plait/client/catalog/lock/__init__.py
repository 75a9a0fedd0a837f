"""Tools as they were when somebody looked at them, and what has become of them since."""
