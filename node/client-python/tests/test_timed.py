"""`timed`, `timer` and the explicit records: what they count, and what they leave alone."""

import asyncio
import inspect
import threading
import time
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
        self.listening.poll_until(lambda: plimsoll.flush(0.1))
        return self.listening.read()

    def counts(self):
        received = self.received()
        return {series: received.count(series) for series in received.latencies}


class Decorated(Recording):
    """Functions of every kind."""

    def test_a_function_keeps_its_name_text_and_signature_and_answers_as_before(self):
        def original(a: int, *, b: str = "x") -> str:
            """Says something."""
            return b * a

        function = plimsoll.timed("op", phase="train")(original)
        self.assertIsNot(function, original)
        self.assertEqual(function(2, b="y"), "yy")
        self.assertEqual((function.__name__, function.__doc__), ("original", "Says something."))
        self.assertEqual(inspect.signature(function), inspect.signature(original))
        self.assertIs(function.__wrapped__, original)
        self.assertEqual(self.counts(), {"op{phase:train}": 1})

    def test_a_failure_is_timed_counted_and_raised(self):
        @plimsoll.timed("op", phase="train")
        def fail(error):
            raise error

        for error in [ValueError("x"), KeyError("y")]:
            with self.assertRaises(type(error)) as caught:
                fail(error)
            self.assertIs(caught.exception, error)
        # What ends a program is no error of the function.
        with self.assertRaises(KeyboardInterrupt):
            fail(KeyboardInterrupt())
        self.assertEqual(self.counts(), {"op{phase:train}": 3})
        self.assertEqual(dict(self.listening.counters), {"op.errors{phase:train}": 2})

    def test_methods_of_every_kind_are_timed(self):
        class Thing:
            @plimsoll.timed("op")
            def plain(self):
                return "plain"

            @classmethod
            @plimsoll.timed("op")
            def below(cls):
                return "below"

            @plimsoll.timed("op")
            @classmethod
            def above(cls):
                return cls.__name__

            @plimsoll.timed("op")
            @staticmethod
            def static():
                return "static"

        thing = Thing()
        answers = [thing.plain(), Thing.below(), Thing.above(), thing.static()]
        self.assertEqual(answers, ["plain", "below", "Thing", "static"])
        self.assertEqual(self.counts(), {"op": 4})

    def test_recursion_counts_each_call(self):
        @plimsoll.timed("op")
        def factorial(n):
            return n * factorial(n - 1) if n else 1

        self.assertEqual(factorial(5), 120)
        self.assertEqual(self.counts(), {"op": 6})

    def test_the_time_of_a_coroutine_includes_its_awaits(self):
        @plimsoll.timed("op")
        async def wait(loop):
            begun = loop.time()
            await asyncio.sleep(0.02)
            return loop.time() - begun

        async def both():
            loop = asyncio.get_running_loop()
            return await asyncio.gather(wait(loop), wait(loop))

        self.assertTrue(inspect.iscoroutinefunction(wait))
        shortest = min(asyncio.run(both()))
        values = self.received().values_ns("op")
        self.assertEqual(len(values), 2)
        self.assertGreaterEqual(values[0] / 1e9, shortest * 0.99)

    def test_a_cancelled_task_is_timed_and_is_no_error(self):
        @plimsoll.timed("op")
        async def forever():
            await asyncio.Event().wait()

        async def cancelled():
            task = asyncio.ensure_future(forever())
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        asyncio.run(cancelled())
        self.assertEqual(self.counts(), {"op": 1})
        self.assertEqual(dict(self.listening.counters), {})

    def test_ten_thousand_tasks_at_once_are_all_counted(self):
        @plimsoll.timed("op")
        async def step():
            await asyncio.sleep(0)

        async def crowd():
            await asyncio.gather(*[step() for _ in range(10_000)])

        asyncio.run(crowd())
        self.assertEqual(self.counts(), {"op": 10_000})

    def test_not_a_name_is_told_apart_at_once(self):
        with self.assertRaisesRegex(TypeError, r'@timed\("epoch_hook"\)'):
            plimsoll.timed(len)

    def test_an_expected_interval_fills_in_what_a_pause_kept_from_happening(self):
        plimsoll.record("op", seconds=0.010, expected_interval_s=0.002)
        plimsoll.record("op", seconds=0.001, expected_interval_s=0.002)
        self.assertEqual(
            [value / 1e6 for value in self.received().values_ns("op")], [1, 2, 4, 6, 8, 10]
        )

        @plimsoll.timed("paced", expected_interval_s=1e-9)
        def pause():
            return "answer"

        self.assertEqual(pause(), "answer")
        values = self.received().values_ns("paced")
        self.assertGreater(len(values), 10)


class Generators(Recording):
    """Generators are timed inside alone, and behave as if they were not."""

    def test_a_generator_is_one_sample_without_its_consumers_time(self):
        spent = []

        def spend():
            begun = time.perf_counter_ns()
            for _ in range(100_000):
                pass
            spent.append(time.perf_counter_ns() - begun)

        @plimsoll.timed("op")
        def numbers():
            spend()
            yield 1
            yield 2
            spend()
            return 3

        def all_of_it():
            return (yield from numbers())

        consumed = []
        begun = time.perf_counter_ns()
        outer = all_of_it()
        try:
            while True:
                consumed.append(next(outer))
                spend()
        except StopIteration as end:
            consumed.append(end.value)
        whole = time.perf_counter_ns() - begun
        self.assertEqual(consumed, [1, 2, 3])
        self.assertTrue(inspect.isgeneratorfunction(numbers))
        [value] = self.received().values_ns("op")
        inside, consumers = spent[0] + spent[3], spent[1] + spent[2]
        self.assertGreaterEqual(value, inside)
        self.assertLessEqual(value, whole - consumers)

    def test_what_is_sent_and_thrown_reaches_the_generator(self):
        @plimsoll.timed("op")
        def echo():
            got = []
            while len(got) < 3:
                try:
                    got.append((yield len(got)))
                except KeyError as error:
                    got.append(error.args[0])
            return got

        running = echo()
        self.assertEqual(next(running), 0)
        self.assertEqual(running.send("a"), 1)
        self.assertEqual(running.throw(KeyError("b")), 2)
        with self.assertRaises(StopIteration) as end:
            running.send("c")
        self.assertEqual(end.exception.value, ["a", "b", "c"])
        self.assertEqual(self.counts(), {"op": 1})
        self.assertEqual(dict(self.listening.counters), {})

    def test_a_closed_generator_cleans_up_and_counts(self):
        closed = []

        @plimsoll.timed("op")
        def numbers():
            try:
                yield 1
                yield 2
            finally:
                closed.append(True)

        running = numbers()
        next(running)
        running.close()
        never_begun = numbers()
        never_begun.close()
        self.assertEqual(closed, [True])
        self.assertEqual(self.counts(), {"op": 1})
        self.assertEqual(dict(self.listening.counters), {})

    def test_a_failing_generator_counts_an_error(self):
        @plimsoll.timed("op")
        def fail():
            yield 1
            raise ValueError("x")

        with self.assertRaises(ValueError):
            list(fail())
        self.assertEqual(self.counts(), {"op": 1})
        self.assertEqual(dict(self.listening.counters), {"op.errors": 1})

    def test_async_generators_behave_as_before_and_count(self):
        closed = []

        @plimsoll.timed("op")
        async def numbers(fails):
            try:
                got = yield 1
                await asyncio.sleep(0)
                yield got
                if fails:
                    raise ValueError("x")
            finally:
                closed.append(fails)

        async def consume():
            running = numbers(False)
            self.assertEqual(await running.asend(None), 1)
            self.assertEqual(await running.asend("sent"), "sent")
            with self.assertRaises(StopAsyncIteration):
                await running.asend(None)
            with self.assertRaises(ValueError):
                self.assertEqual([value async for value in numbers(True)], [])
            left = numbers(False)
            await left.asend(None)
            await left.aclose()
            thrown = numbers(False)
            await thrown.asend(None)
            with self.assertRaises(KeyError):
                await thrown.athrow(KeyError("y"))

        self.assertTrue(inspect.isasyncgenfunction(numbers))
        asyncio.run(consume())
        self.assertEqual(closed, [False, True, False, False])
        self.assertEqual(self.counts(), {"op": 4})
        self.assertEqual(dict(self.listening.counters), {"op.errors": 2})


class Blocks(Recording):
    """`timer`, and values given by hand."""

    def test_labels_may_be_added_inside(self):
        with plimsoll.timer("kernel_fetch", outcome="hit", tier=1):
            pass
        with plimsoll.timer("kernel_fetch", outcome="hit") as fetch:
            fetch.label(outcome="miss")
        self.assertGreater(fetch.elapsed_ns, 0)
        self.assertEqual(
            self.counts(),
            {"kernel_fetch{outcome:hit,tier:1}": 1, "kernel_fetch{outcome:miss}": 1},
        )

    def test_async_with_works_alike(self):
        async def fetch():
            async with plimsoll.timer("op") as timer:
                await asyncio.sleep(0)
                timer.label(outcome="ok")

        asyncio.run(fetch())
        self.assertEqual(self.counts(), {"op{outcome:ok}": 1})

    def test_an_error_leaves_the_block_and_is_counted(self):
        with self.assertRaises(ValueError), plimsoll.timer("op", k="v"):
            raise ValueError("x")
        self.assertEqual(self.counts(), {"op{k:v}": 1})
        self.assertEqual(dict(self.listening.counters), {"op.errors{k:v}": 1})

    def test_tokens_come_with_the_seconds_that_they_took(self):
        with plimsoll.timer("llm_inference") as inference:
            inference.tokens(100)
            inference.tokens(28)
        plimsoll.tokens("llm_inference", 72, seconds=2.0)
        counters = self.received().counters
        self.assertEqual(counters["llm_inference.tokens"], 200)
        seconds = 2.0 + inference.elapsed_ns / 1e9
        self.assertAlmostEqual(counters["llm_inference.seconds"], seconds, places=12)

    def test_values_keep_their_units(self):
        plimsoll.record("op", seconds=0.0125)
        plimsoll.record_ns("op", 17)
        plimsoll.count("cache", outcome="hit")
        plimsoll.count("cache", 2, outcome="hit")
        plimsoll.count("cache", n=4, outcome="hit")
        plimsoll.gauge("depth", 3, k="v")
        received = self.received()
        self.assertEqual(received.values_ns("op"), [17, 12_500_000])
        self.assertEqual(dict(received.counters), {"cache{outcome:hit}": 7})
        self.assertEqual(received.gauges, {"depth{k:v}": 3})

    def test_values_that_are_none_are_dropped_and_counted(self):
        before = plimsoll.stats().dropped["value"]
        for bad in [float("nan"), float("inf"), -1.0]:
            plimsoll.record("op", seconds=bad)
            plimsoll.tokens("op", 1, seconds=bad)
        for bad in [float("nan"), float("inf"), 10**400]:
            plimsoll.count("c", bad)
            plimsoll.gauge("g", bad)
        plimsoll.record_ns("op", -1)
        plimsoll.record("ok", seconds=1e300)
        for value in [1e308, 1e308]:
            plimsoll.count("large", value)
        received = self.received()
        self.assertEqual(plimsoll.stats().dropped["value"] - before, 13)
        self.assertEqual(received.counters["plimsoll_client_dropped{reason:value}"], 13)
        self.assertEqual(received.values_ns("ok"), [2**53])
        self.assertEqual(received.counters["large"], 1.7976931348623157e308)
        self.assertEqual(set(received.latencies), {"ok"})

    def test_what_is_switched_off_later_records_no_more_and_keeps_what_it_had(self):
        call = plimsoll.timed("op")(int)
        call()
        plimsoll.configure(enable=False)
        for _ in range(5):
            call()
            plimsoll.record("op", seconds=1)
        self.assertEqual(self.counts(), {"op": 1})
        threads = threading.active_count()
        plimsoll.configure(enable=True)
        call()
        self.assertEqual(self.counts(), {"op": 2})
        self.assertEqual(threading.active_count(), threads)

    def test_stats_tell_where_everything_is(self):
        before = plimsoll.stats()
        plimsoll.record("op", seconds=1)
        self.assertEqual(plimsoll.stats().held - before.held, 1)
        self.received()
        after = plimsoll.stats()
        self.assertEqual((after.held, after.samples - before.samples), (0, 1))
        self.assertEqual((after.address, after.fault), (self.listening.path, ""))
        self.assertTrue(after.enabled and after.connected)

    def test_a_client_without_a_node_says_so_and_keeps_what_it_has(self):
        self.received()
        self.listening.close()
        plimsoll.record("op", seconds=1)
        self.assertFalse(plimsoll.flush(10))
        stats = plimsoll.stats()
        self.assertEqual((stats.held, stats.connected), (1, False))
        self.assertIn("No such file", stats.fault)
        self.listening = enter(self, unix_socket())
        plimsoll.configure(socket=self.listening.path)
        self.assertEqual(self.counts(), {"op": 1})


if __name__ == "__main__":
    unittest.main()
