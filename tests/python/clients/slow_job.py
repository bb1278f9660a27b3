"""A job whose epoch hook takes 30 ms: records one each 20 ms for this many seconds, and ends."""

import sys
import time

import plimsoll

END = time.monotonic() + float(sys.argv[1])
while time.monotonic() < END:
    plimsoll.record("epoch_hook", seconds=0.030)
    time.sleep(0.02)
