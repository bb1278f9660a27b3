"""A job that follows the alerts about itself: too slow until one fires, then within its limit until it ends.

The environment has PLIMSOLL_SOCKET and PLIMSOLL_URL. Prints each change that it is called for, and what a read has.
"""

import threading
import time

import plimsoll

STATES = {"firing": threading.Event(), "resolved": threading.Event()}


def on_change(alert: plimsoll.Alert) -> None:
    """One change of an alert; others are about the machine that the test runs on."""
    if alert.rule != "epoch_hook":
        return
    print(alert.state, alert.severity, alert.rule, alert.scope, alert.node, flush=True)
    if alert.scope == "node":
        STATES[alert.state].set()


plimsoll.configure(enable=True)
watch = plimsoll.on_alert(on_change, severity="critical")
while not STATES["resolved"].is_set():
    plimsoll.record("epoch_hook", seconds=0.002 if STATES["firing"].is_set() else 0.030)
    time.sleep(0.01)
watch.stop()
read = plimsoll.get_alerts(severity="critical")
[state] = [alert.state for alert in read if (alert.rule, alert.scope) == ("epoch_hook", "node")]
others = {alert.severity for alert in plimsoll.get_alerts(severity="info")} - {"info"}
print("read", state, sorted(others), repr(watch.fault))
