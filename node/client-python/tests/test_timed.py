"""`timed`: what it counts, and what it leaves alone, of functions of every kind."""

import asyncio
import functools
import inspect
import time
import unittest

import plimsoll

from .recording import Recording


class Decorated(Recording):
    """Functions of every kind."""

    def test_a_function_keeps_its_name_text_and_signature_and_answers_as_before(self):
        def original(a: int, *, b: str = "x") -> str:
            """Does something."""
            return b * a

        function = plimsoll.timed("op", phase="train")(original)
        self.assertIsNot(function, original)
        self.assertEqual(function(2, b="y"), "yy")
        self.assertEqual((function.__name__, function.__doc__), ("original", "Does something."))
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

    def test_an_invalid_name_is_rejected_at_once(self):
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


def plainly(function):
    """A decorator that knows nothing of coroutines."""

    @functools.wraps(function)
    def call(*args):
        return function(*args)

    return call


class GoingOn(Recording):
    """What a call returns may do its work later, and only the call can tell."""

    def test_whatever_is_awaited_is_timed_until_its_end(self):
        async def wait():
            begun = time.perf_counter_ns()
            await asyncio.sleep(0.02)
            slept.append(time.perf_counter_ns() - begun)
            return "done"

        class Handler:
            async def __call__(self):
                return await wait()

        slept = []
        for make in (
            lambda: plainly(wait),
            Handler,
            lambda: lambda: asyncio.ensure_future(wait()),
        ):
            for settings in ({}, {"expected_interval_s": 10.0}, {"cpu": True}):
                call = plimsoll.timed("op", **settings)(make())

                async def main(call=call):
                    return await call()

                self.assertEqual(asyncio.run(main()), "done")
        values = self.received().values_ns("op")
        self.assertEqual(len(values), len(slept))
        self.assertGreaterEqual(min(values), min(slept) * 0.99)

    def test_a_task_stays_the_same_task_and_its_failure_counts(self):
        async def fail():
            raise ValueError("x")

        async def main():
            task = asyncio.ensure_future(fail())
            self.assertIs(plimsoll.timed("op")(lambda: task)(), task)
            with self.assertRaises(ValueError):
                await task
            forever = plimsoll.timed("op")(lambda: asyncio.ensure_future(asyncio.sleep(9)))()
            forever.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await forever

        asyncio.run(main())
        self.assertEqual(self.counts(), {"op": 2})
        self.assertEqual(dict(self.listening.counters), {"op.errors": 1})

    def test_generators_below_another_decorator_are_one_sample_each(self):
        def numbers():
            yield 1
            yield 2

        async def later():
            yield 1
            yield 2

        async def main():
            return [number async for number in plimsoll.timed("op")(plainly(later))()]

        self.assertEqual(list(plimsoll.timed("op")(plainly(numbers))()), [1, 2])
        self.assertEqual(asyncio.run(main()), [1, 2])
        self.assertEqual(self.counts(), {"op": 2})

    def test_an_awaitable_of_another_kind_is_left_alone_with_a_warning(self):
        class Own:
            def __await__(self):
                yield from ()
                return "own"

        async def main():
            return await plimsoll.timed("op")(Own)()

        with self.assertWarnsRegex(plimsoll.PlimsollWarning, r"the call returned a Own.*timer\('op'\)"):
            self.assertEqual(asyncio.run(main()), "own")
        self.assertEqual(self.counts(), {})


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

    def test_a_generator_may_answer_to_its_end(self):
        def returns():
            try:
                yield 1
            except GeneratorExit:
                return 7

        def goes_on():
            try:
                yield 1
            except GeneratorExit:
                yield 2

        def end_of(running):
            next(running)
            try:
                return running.throw(GeneratorExit())
            except StopIteration as end:
                return f"returned {end.value}"

        for function, expected in [(returns, "returned 7"), (goes_on, 2)]:
            self.assertEqual(end_of(function()), expected)
            self.assertEqual(end_of(plimsoll.timed("op")(function)()), expected)
        self.assertEqual(self.counts(), {"op": 2})

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


if __name__ == "__main__":
    unittest.main()
