"""What tests of the client of this very process share."""

import unittest

import plimsoll

from .listening import enter, unix_socket


class Recording(unittest.TestCase):
    """The client of this process, fed into a socket of each test's own."""

    def setUp(self):
        self.listening = enter(self, unix_socket())
        plimsoll.configure(enable=True, socket=self.listening.path, flush_ms=60_000)
        self.addCleanup(plimsoll.configure, enable=False)

    def tearDown(self):
        self.received()

    def received(self):
        # A socket takes about ten datagrams; what is more wants to be read in between.
        self.listening.poll_until(lambda: self.is_sent(plimsoll.flush(0.1)))
        return self.listening.read()

    @staticmethod
    def is_sent(result):
        # What was recorded before it was switched off is sent too.
        return result or (result.outcome == "disabled" and result.queued == 0)

    def counts(self):
        return self.received().counts()
