"""The parts of `stage.py`: a server, a proxy that injects faults, and the control of both."""
