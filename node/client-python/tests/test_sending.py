"""From values to datagrams: nothing is lost, doubled or bent on the way to a real socket."""

import collections
import itertools
import random
import threading
import tracemalloc
import unittest
from unittest import TestCase, mock

from plimsoll import limits
from plimsoll.buckets import bucket_of
from plimsoll.link import Link, Outcome
from plimsoll.names import tag_text
from plimsoll.registry import Registry
from plimsoll.sender import Sender

from .listening import Listening, enter, unix_socket


def awake_registry():
    """A registry without a thread behind it."""
    registry = Registry(lambda: None)
    registry.wake()
    return registry


def node_bucket(value_ns):
    """Lowest value of the node's bucket: as `schemas/src/histogram/layout.rs` has it."""
    shift = max(value_ns.bit_length(), 20) - 11
    return value_ns >> shift << shift


class Sending(TestCase):
    """One registry, one sender, one socket."""

    def setUp(self):
        self.listening = enter(self, unix_socket())
        self.registry = awake_registry()
        self.sender = Sender(self.registry, Link(self.listening.path))
        self.addCleanup(self.close_link)

    def close_link(self):
        self.sender.link.close()

    def record(self, values, name="op", **labels):
        series = self.registry.latency(name, labels)
        for value in values:
            series.add(value)

    def flush_reading(self):
        """Flushes until all is out, while the node reads."""
        with self.listening.reading():
            outcomes = iter(self.sender.flush, Outcome.SENT)
            attempts = sum(1 for _ in itertools.islice(outcomes, 100))
        self.assertLess(attempts, 100, self.sender.link.fault)

    def held(self):
        return self.sender.held() + sum(series.held() for series in self.registry.all())

    def test_whole_nanoseconds_survive_the_text(self):
        seed = random.Random(4)
        values = [0, 1, 9, 99, 100, 1_000, 999_999, 1_000_000, limits.VALUE_NS_MAX // 4]
        values += [int(10 ** seed.uniform(0, 15)) for _ in range(3_000)]
        self.record(values)
        self.flush_reading()
        self.assertEqual(self.listening.values_ns("op"), sorted(values))

    def test_repeated_values_keep_their_nanoseconds_and_take_few_bytes(self):
        seed = random.Random(7)
        values = [*seed.choices(range(90, 190), k=20_000), 10**9 + 7]
        seed.shuffle(values)
        self.record(values)
        self.flush_reading()
        self.assertEqual(self.listening.values_ns("op"), sorted(values))
        self.assertLess(sum(self.listening.sizes), 60_000)
        # Below 2 048 ns each value has a bucket of its own.
        cells, refused = self.registry.latency("op", {}).samples()
        counts = collections.Counter(values)
        del counts[10**9 + 7]
        self.assertEqual(cells.pop(bucket_of(10**9 + 7)), [1, 10**9 + 7])
        self.assertEqual({value: cell[0] for value, cell in cells.items()}, counts)
        self.assertEqual(refused, 0)

    def test_datagrams_are_full_numbered_and_bounded(self):
        self.record(range(10_000_000, 10_008_000))
        self.flush_reading()
        self.assertLessEqual(max(self.listening.sizes), limits.UNIX_DATAGRAM_BYTES_MAX)
        self.assertGreater(min(self.listening.sizes[:-1]), 7_500)
        self.assertEqual(self.listening.samples(), 8_000)
        self.assertEqual(list(self.listening.clients), [self.sender.client])

    def test_udp_datagrams_cross_an_ethernet_link_in_one_piece(self):
        listening = Listening()
        self.addCleanup(listening.close)
        self.sender.link = Link(listening.address)
        self.record(range(3_000))
        self.listening = listening
        self.flush_reading()
        self.assertEqual(listening.values_ns("op"), list(range(3_000)))
        self.assertLessEqual(max(listening.sizes), limits.UDP_DATAGRAM_BYTES_MAX)
        self.assertGreater(min(listening.sizes[:-1]), 1_200)

    def test_many_series_share_a_datagram(self):
        for number in range(20):
            self.record([number], number=number)
        self.flush_reading()
        self.assertEqual(len(self.listening.sizes), 1)
        self.assertEqual(len(self.listening.latencies), 20)

    def test_an_idle_client_sends_one_end(self):
        self.record([1])
        for _ in range(5):
            self.flush_reading()
        self.assertEqual(len(self.listening.sizes), 2)
        self.assertEqual(self.listening.clients[self.sender.client].tails, 1)
        self.record([2])
        for _ in range(5):
            self.flush_reading()
        self.assertEqual(self.listening.clients[self.sender.client].tails, 2)
        self.assertEqual(self.listening.clients[self.sender.client].number, 4)

    def test_an_end_comes_after_the_tail_and_the_next_value_begins_a_numbering(self):
        former = self.sender.client
        self.record([1, 2])
        self.flush_reading()
        for _ in range(2):
            self.assertIs(self.sender.end(), Outcome.SENT)
        self.assertEqual(self.listening.read().finals(), [f"_seq|{former}|3|2|0|last"])
        self.record([3])
        self.flush_reading()
        following = self.sender.client
        self.assertEqual(list(self.listening.clients), [former, following])
        # Beside its last lines, for a process that may be gone before another datagram.
        self.record([4])
        for _ in range(2):
            self.assertIs(self.sender.flush_after_end(), Outcome.SENT)
        self.assertEqual(self.listening.read().finals()[1:], [f"_seq|{following}|2|1|1|last"])
        self.assertEqual(self.listening.values_ns("op"), [1, 2, 3, 4])

    def test_a_final_datagram_that_finds_the_socket_full_is_sent_once_it_is_not(self):
        client = self.sender.client
        self.record([1])
        self.flush_reading()
        self.assertIs(self.sender.tail(), Outcome.SENT)
        with mock.patch.object(self.sender.link, "send", return_value=Outcome.FULL):
            self.assertIs(self.sender.end(), Outcome.FULL)
            # Recorded before the final datagram was taken, and yet not of its numbering.
            self.record([2])
            self.assertIs(self.sender.flush(), Outcome.FULL)
        self.flush_reading()
        self.assertIs(self.sender.end(), Outcome.SENT)
        first, second = self.listening.read().finals()
        self.assertEqual(first, f"_seq|{client}|3|1|0|last")
        self.assertRegex(second, r"\|3\|1\|0\|last$")
        self.assertEqual(self.listening.values_ns("op"), [1, 2])

    def test_a_node_that_did_not_take_all_gets_no_end_at_a_move(self):
        self.record([1])
        self.flush_reading()
        former = self.sender.link
        with mock.patch.object(former, "send", return_value=Outcome.FULL) as send:
            self.record([2])
            self.assertIs(self.sender.flush(), Outcome.FULL)
            self.sender.move(Link(self.listening.path))
        # That of the flush and one more attempt; a later number would count it as lost.
        self.assertEqual(send.call_count, 2)
        self.assertEqual(send.call_args_list[0], send.call_args_list[1])
        self.flush_reading()
        self.assertEqual(self.listening.finals(), [])
        self.assertEqual(self.listening.values_ns("op"), [1, 2])
        self.assertEqual(self.listening.clients[self.sender.client].samples, 1)

    def test_a_client_without_values_never_sends(self):
        for send in [self.sender.flush, self.sender.tail, self.sender.end, self.sender.flush_after_end]:
            self.assertIs(send(), Outcome.SENT)
        self.sender.move(Link(self.listening.path))
        self.assertEqual(self.listening.read().sizes, [])

    def test_a_node_that_does_not_read_gets_everything_once_it_does(self):
        sent = 0
        for _ in range(30):
            self.record(range(sent, sent + 2_000))
            sent += 2_000
            if self.sender.flush() is Outcome.FULL:
                break
        self.assertIn("the node does not read", self.sender.link.fault)
        self.assertEqual(self.sender.samples + self.held(), sent)
        self.flush_reading()
        self.assertEqual(self.listening.values_ns("op"), list(range(sent)))

    def test_an_absent_node_costs_nothing_but_the_last_bits(self):
        self.listening.close()
        seed = random.Random(5)
        values = [int(seed.lognormvariate(16, 1)) for _ in range(200_000)]
        for start in range(0, len(values), 10_000):
            self.record(values[start : start + 10_000])
            self.assertIs(self.sender.flush(), Outcome.UNREACHABLE)
            self.registry.fold_halves()
        self.assertEqual(self.held(), len(values))
        self.assertLess(len(self.registry.latency("op", {}).pending), limits.SERIES_VALUES_MAX)
        self.listening = Listening(self.listening.path)
        self.addCleanup(self.listening.close)
        self.flush_reading()
        got = self.listening.values_ns("op")
        self.assertEqual(len(got), len(values))
        self.assertEqual([node_bucket(v) for v in got], [node_bucket(v) for v in sorted(values)])
        self.assertLess(abs(sum(got) - sum(values)), len(values))
        self.assertLess(sum(self.listening.sizes), 400_000)

    def test_a_node_that_was_restarted_is_found_again(self):
        self.record([1])
        self.flush_reading()
        self.listening.close()
        self.listening = Listening(self.listening.path)
        self.addCleanup(self.listening.close)
        self.record([2])
        self.flush_reading()
        self.assertEqual(self.listening.values_ns("op"), [2])
        self.assertEqual(self.listening.clients[self.sender.client].number, 2)

    def test_a_refusal_over_loopback_udp_loses_nothing(self):
        listening = Listening()
        address = listening.address
        listening.close()
        self.sender.link = Link(address)
        for value in range(5):
            self.record([value])
            self.assertIs(self.sender.flush(), Outcome.UNREACHABLE)
        self.assertEqual(self.held(), 5)
        self.assertIn("refused", self.sender.link.fault)

    def test_threads_that_record_while_others_send_lose_nothing(self):
        each = 40_000
        threads = [
            threading.Thread(target=self.record, args=(range(n, each * 8, 8),)) for n in range(8)
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            self.sender.flush()
            self.listening.read()
        self.flush_reading()
        self.assertEqual(self.listening.count("op"), each * 8)
        got = self.listening.values_ns("op")
        for expected, value in zip(range(each * 8), got):
            self.assertEqual(bucket_of(value), bucket_of(expected))

    def test_a_value_that_comes_between_the_copy_and_its_deletion_is_kept(self):
        class Switching(list):
            """As if a thread had its turn after each slice, which Python 3.9 allows."""

            def __getitem__(self, index):
                taken = super().__getitem__(index)
                self.append(2)
                return taken

        series = self.registry.latency("op", {})
        series.pending = Switching([1])
        self.assertEqual((series.take(1_024), list(series.pending)), ([1], [2]))

    def test_a_series_made_by_a_signal_handler_meanwhile_is_the_same_one(self):
        make = tag_text

        def interrupted(pairs):
            with mock.patch("plimsoll.registry.tag_text", make):
                self.record([1])
            return make(pairs)

        with mock.patch("plimsoll.registry.tag_text", interrupted):
            self.record([2])
        self.flush_reading()
        self.assertEqual(self.listening.values_ns("op"), [1, 2])

    def test_long_spellings_are_read_anew_each_time_and_take_no_memory(self):
        long = "x" * 10_000
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        for number in range(1_000):
            self.record([1], prompt=f"{long}{number}")
        self.assertLess(tracemalloc.get_traced_memory()[0], 1_000_000)
        self.assertEqual((len(self.registry), self.held()), (1, 1_000))

    def test_a_value_recorded_while_its_own_thread_folds_waits_for_the_next_turn(self):
        series = self.registry.latency("op", {})
        series.pending_max = 10

        class Interrupting(int):
            """Runs code in the middle of folding, as a signal or the collector may."""

            def bit_length(self):
                for value in range(100, 120):
                    series.add(value)
                return 1

        for value in [Interrupting(1), *range(2, 12)]:
            series.add(value)
        self.assertEqual(len(series.pending), 20)
        self.assertEqual((len(series.cells), self.registry.cells), (11, 11))
        self.flush_reading()
        self.assertEqual(self.listening.values_ns("op"), [*range(1, 12), *range(100, 120)])

    def test_counters_add_up_and_the_last_value_of_a_gauge_counts(self):
        for amount in [1, 2, 2.5]:
            self.registry.counter("c", {"x": 1}).add(amount)
            self.registry.gauge("g", {}).add(amount)
        self.flush_reading()
        self.assertEqual(dict(self.listening.counters), {"c{x:1}": 5.5})
        self.assertEqual(self.listening.gauges, {"g": 2.5})
        self.registry.counter("c", {"x": 1}).add(1)
        self.flush_reading()
        self.assertEqual(self.listening.counters["c{x:1}"], 6.5)

    def test_labels_that_no_line_can_hold_are_fixed(self):
        table = [
            ({"k": "a,b|c\nd"}, "op{k:a_b_c_d}"),
            ({"k e,y": "v"}, "op{k_e_y:v}"),
            ({"class_": "llm"}, "op{class:llm}"),
            ({"k": "\U0001f6a2" * 40}, "op{k:%s}" % ("\U0001f6a2" * 32)),
            ({"k": "\ud800x"}, "op{k:?x}"),
            ({"b": 1, "a": 2}, "op{a:2,b:1}"),
        ]
        for labels, _ in table:
            self.record([1], **labels)
        self.record([1], name="no such:name\n")
        self.flush_reading()
        expected = {series for _, series in table} | {"no_such_name_"}
        self.assertEqual(set(self.listening.latencies), expected)

    def test_the_longest_name_with_the_most_labels_fits_a_small_datagram(self):
        listening = Listening()
        self.addCleanup(listening.close)
        self.sender.link = Link(listening.address)
        self.listening = listening
        labels = {f"{number:064}": "v" * 500 for number in range(40)}
        for _ in range(50):
            self.record([123_456_789], name="n" * 500, **labels)
        self.flush_reading()
        self.assertEqual(listening.samples(), 50)

    def test_labels_of_equal_hash_are_different_series(self):
        for value in (1, True, 1.0):
            self.record([1], k=value)
        self.flush_reading()
        self.assertEqual(set(self.listening.latencies), {"op{k:1}", "op{k:True}", "op{k:1.0}"})

    def test_past_the_series_cap_values_go_to_other_and_stay_counted(self):
        for number in range(limits.SERIES_MAX + 500):
            self.record([number], name=f"op{number}")
            self.registry.counter(f"op{number}", {}).add(1)
            self.registry.gauge(f"op{number}", {}).add(1)
        # Without the places of `other` of each unit.
        self.assertEqual(len(self.registry), limits.SERIES_MAX - 3)
        self.flush_reading()
        self.assertEqual(self.listening.samples(), limits.SERIES_MAX + 500)
        dropped = self.registry.dropped()["series"]
        self.assertEqual(sum(self.listening.counters.values()), limits.SERIES_MAX + 500 + dropped)
        self.assertEqual(len(self.listening.gauges) + dropped, limits.SERIES_MAX + 500)
        self.assertGreater(self.listening.count("other"), 500)

    def test_what_finds_no_cell_is_dropped_counted_logged(self):
        self.listening.close()
        seed = random.Random(6)
        recorded = 0
        for number in range(60):
            self.record([seed.randrange(10**12) for _ in range(6_000)], name=f"op{number}")
            recorded += 6_000
        # As the thread does after each flush without a node.
        self.assertIs(self.sender.flush(), Outcome.UNREACHABLE)
        self.registry.fold_halves()
        cells = [series.cells for series in self.registry.all() if hasattr(series, "cells")]
        self.assertEqual(sum(map(len, cells)), self.registry.cells)
        self.assertLessEqual(self.registry.cells, limits.CELLS_MAX)
        pending = sum(len(series.pending) for series in self.registry.all())
        self.assertLessEqual(pending, limits.VALUES_MAX)
        dropped = self.registry.dropped()["cells"]
        self.assertGreater(dropped, 0)
        self.listening = Listening(self.listening.path)
        self.addCleanup(self.listening.close)
        self.flush_reading()
        self.assertEqual(self.listening.samples() + dropped, recorded)
        self.assertEqual(self.listening.counters["plimsoll_client_dropped{reason:cells}"], dropped)
        self.assertEqual(self.registry.cells, 0)


class Conservation(TestCase):
    """Whatever happens in whatever order: recorded = read + held + dropped."""

    RARE = ("die", "live", "fold", "end", "flush_after_end", "move")

    def test_every_sample_is_read_held_or_dropped_under_random_outages(self):
        for seed in range(16):
            with self.subTest(seed=seed), unix_socket() as listening:
                self.run_schedule(random.Random(seed), listening)

    def run_schedule(self, chance, listening):
        registry = awake_registry()
        sender = Sender(registry, Link(listening.path))
        recorded, read, alive = 0, 0, listening
        for _ in range(60):
            action = chance.choice(["record", "record", "flush", "flush", *self.RARE])
            if action == "record":
                series = registry.latency("op", {"k": chance.randrange(3)})
                rate = chance.choice([1e-6, 1e-2])
                for _ in range(chance.randrange(1_500)):
                    series.add(int(chance.expovariate(rate)))
                    recorded += 1
            elif action == "fold":
                for series in registry.all():
                    series.settle(series.take(chance.randrange(2_000)))
            elif action == "flush":
                sender.flush()
                if alive:
                    alive.read()
            elif action == "end":
                if sender.flush() is Outcome.SENT:
                    sender.end()
            elif action == "flush_after_end":
                sender.flush_after_end()
            elif action == "move":
                sender.move(Link(listening.path))
            elif action == "die" and alive:
                read += alive.read().samples()
                alive.close()
                alive = None
            elif action == "live" and not alive:
                alive = Listening(listening.path)
            held = sender.held() + sum(series.held() for series in registry.all())
            here = alive.read().samples() if alive else 0
            dropped = registry.dropped()["cells"]
            self.assertEqual(recorded, read + here + held - self.other_than_latency(registry))
            self.assertEqual(dropped, 0)
        sender.link.close()
        if alive:
            alive.close()

    @staticmethod
    def other_than_latency(registry):
        return sum(series.held() for series in registry.all() if not hasattr(series, "cells"))


if __name__ == "__main__":
    unittest.main()
