"""Tests of the client on real sockets, processes, forks and threads; nothing is replaced."""

import os

# Before the package reads them: the tests themselves may run as a rank.
os.environ["PLIMSOLL_RANKS"] = "off"
