"""A job that follows the alerts about itself: too slow until one fires, then within its limit until it ends.

The environment has PLIMSOLL_SOCKET and PLIMSOLL_URL. Prints each change that it is called for, and what a read has.
"""

import threading
import time

import plimsoll

STATES = {"firing": threading.Event(), "resolved": threading.Event()}


def on_change(alert: plimsoll.Alert) -> None:
    """One change of an alert about a node or the fleet."""
    print(alert.state, alert.severity, alert.rule, alert.scope, alert.node, flush=True)
    if alert.scope == "node":
        STATES[alert.state].set()


plimsoll.configure(enable=True)
watch = plimsoll.on_alert(on_change, severity="warning")
while not STATES["resolved"].is_set():
    plimsoll.record("epoch_hook", seconds=0.002 if STATES["firing"].is_set() else 0.030)
    time.sleep(0.01)
watch.stop()
states = {alert.scope: alert.state for alert in plimsoll.get_alerts(severity="warning")}
print("read", states["node"], plimsoll.get_alerts(severity="info"), repr(watch.fault))
