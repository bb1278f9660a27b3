//! The events of a Chrome trace, one by one: a trace of PyTorch has gigabytes, and no more than one
//! event of it is in memory. Read as hostile: an error keeps what was read before.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::operators::Operators;

/// Bytes of one event, or of one other field: the largest, with all devices, has some KiB.
const ENTRY_BYTES_MAX: u64 = 4 << 20;
/// Bytes of a trace once it is inflated: an hour of a trace of PyTorch.
const TRACE_BYTES_MAX: u64 = 32 << 30;
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reads a trace, compressed or not: an object with `traceEvents`, or the list alone.
///
/// # Errors
/// When it is cut or malformed; what is before that is counted.
pub(super) fn read(input: impl Read, operators: &mut Operators) -> serde_json::Result<()> {
    let mut input = BufReader::with_capacity(1 << 16, input);
    let start = input.fill_buf().map_err(serde_json::Error::io)?;
    if start.starts_with(&GZIP) {
        read_plain(MultiGzDecoder::new(input), operators)
    } else {
        read_plain(input, operators)
    }
}

fn read_plain(input: impl Read, operators: &mut Operators) -> serde_json::Result<()> {
    let left = Rc::new(Cell::new(ENTRY_BYTES_MAX));
    let bounded = Bounded { input, left: Rc::clone(&left), left_of_trace: TRACE_BYTES_MAX };
    // Outermost, since the parser takes single bytes.
    let mut json =
        serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 16, bounded));
    json.deserialize_any(Trace { operators, left })?;
    json.end()
}

/// An input that may not be too long, and no entry of it.
struct Bounded<R> {
    input: R,
    left: Rc<Cell<u64>>,
    left_of_trace: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left.get() == 0 {
            return Err(io::Error::other(format!("an entry has over {ENTRY_BYTES_MAX} bytes")));
        }
        if self.left_of_trace == 0 {
            return Err(io::Error::other(format!("it has over {TRACE_BYTES_MAX} bytes")));
        }
        let read = self.input.read(buffer)?;
        self.left_of_trace = self.left_of_trace.saturating_sub(read as u64);
        self.left.set(self.left.get().saturating_sub(read as u64));
        Ok(read)
    }
}

struct Trace<'a> {
    operators: &'a mut Operators,
    left: Rc<Cell<u64>>,
}

impl<'de> DeserializeSeed<'de> for &mut Trace<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(Trace { operators: self.operators, left: Rc::clone(&self.left) })
    }
}

impl<'de> Visitor<'de> for Trace<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Chrome trace: an object with traceEvents, or a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut events: A) -> Result<(), A::Error> {
        while let Some(event) = events.next_element()? {
            self.operators.add(event);
            self.left.set(ENTRY_BYTES_MAX);
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<(), A::Error> {
        while let Some(key) = fields.next_key::<String>()? {
            match key.as_str() {
                "traceEvents" => fields.next_value_seed(&mut self)?,
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
            self.left.set(ENTRY_BYTES_MAX);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Each operator with its device, calls, self and total in microseconds; and the error.
    fn of(trace: &[u8]) -> (Vec<String>, String) {
        let mut operators = Operators::default();
        let error = read(trace, &mut operators).err().map(|error| error.to_string());
        operators.next_trace();
        let faults = operators.faults();
        let rows = operators.top().into_iter().map(|of| {
            let [own, total] = [of.self_ms, of.total_ms].map(|ms| ms * 1e3);
            format!("{} {} {} {own} {total}", of.name, of.device, of.calls.unwrap())
        });
        (rows.collect(), error.unwrap_or_else(|| faults.join("; ")))
    }

    const TRACE: &str = r#"{"schemaVersion":1,"deviceProperties":[{"id":0,"x":[1,{"y":[]}]}],
        "traceEvents":[
        {"ph":"M","name":"process_name","pid":7,"tid":0,"args":{"name":"python"}},
        {"ph":"X","cat":"cpu_op","name":"aten::linear","pid":7,"tid":7,"ts":100.0,"dur":50},
        {"ph":"X","cat":"cpu_op","name":"aten::add","pid":7,"tid":7,"ts":101,"dur":30.5,"args":{}},
        {"ph":"X","cat":"cpu_op","name":"aten::add","pid":7,"tid":7,"ts":102,"dur":10},
        {"ph":"X","cat":"cpu_op","name":"aten::add","pid":7,"tid":8,"ts":103,"dur":5},
        {"ph":"X","cat":"python_function","name":"nn.Module","pid":7,"tid":7,"ts":90,"dur":99},
        {"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":120,"dur":40},
        {"ph":"X","cat":"gpu_memcpy","name":"HtoD","pid":0,"tid":"stream 9","ts":120,"dur":4},
        {"ph":"X","cat":"Kernel","name":"gemm","pid":0,"tid":7,"ts":159,"dur":3},
        {"ph":"X","cat":"cpu_op","name":"broken","pid":7,"tid":7,"ts":"1","dur":[2]}],
        "traceName":"x"}"#;

    #[test]
    fn operators_have_self_and_total_by_device() {
        let wanted = [
            "gemm cuda 2 43 43",
            "aten::add cpu 3 35.5 35.5",
            "aten::linear cpu 1 19.5 50",
            "HtoD cuda 1 4 4",
        ];
        let fault = "1 operators without a name, a start or a duration were left out";
        assert_eq!(of(TRACE.as_bytes()), (wanted.map(str::to_owned).into(), fault.to_owned()));

        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::Write::write_all(&mut gzip, TRACE.as_bytes()).unwrap();
        assert_eq!(of(&gzip.finish().unwrap()), of(TRACE.as_bytes()));
    }

    #[test]
    fn a_damaged_trace_keeps_what_was_read_and_names_the_fault() {
        let cut = TRACE.find(r#"{"ph":"X","cat":"kernel""#).unwrap();
        let long = format!(r#"{{"x":"{}"}}"#, "y".repeat(5 << 20));
        let deep = "[".repeat(1_000);
        let table = [
            (&TRACE[..cut + 20], 2, "EOF while parsing a string"),
            (&TRACE.replace(r#""kernel""#, "kernel"), 2, "expected value at line 9"),
            (&long, 0, "an entry has over 4194304 bytes"),
            (&deep, 0, "EOF while parsing a list"),
            ("7", 0, "expected a Chrome trace: an object with traceEvents"),
            ("", 0, "EOF while parsing a value"),
        ];
        for (trace, rows, words) in table {
            let (found, error) = of(trace.as_bytes());
            assert_eq!(found.len(), rows, "{error}");
            assert!(error.contains(words), "{error}");
        }
        let (_, error) = of(b"\x1f\x8b\x08nonsense");
        assert!(error.contains("gzip") || error.contains("deflate"), "{error}");
    }

    /// A trace that is made while it is read.
    struct Generated {
        events: u64,
        made: u64,
        text: Vec<u8>,
        at: usize,
    }

    impl Read for Generated {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.at == self.text.len() && self.made < self.events {
                let (n, name) = (self.made, self.made % 6_000);
                let comma = if n == 0 { "[" } else { "," };
                let end = if n + 1 == self.events { "]" } else { "" };
                self.text = format!(
                    r#"{comma}{{"ph":"X","cat":"cpu_op","name":"aten::op_{name}","pid":1,"tid":{},
                    "ts":{n},"dur":1,"args":{{"External id":{n},"Input Dims":[[64,128],[128]]}}}}{end}"#,
                    n % 500
                )
                .into_bytes();
                (self.made, self.at) = (n + 1, 0);
            }
            let length = buffer.len().min(self.text.len() - self.at);
            buffer[..length].copy_from_slice(&self.text[self.at..self.at + length]);
            self.at += length;
            Ok(length)
        }
    }

    /// What is resident of this process, in bytes.
    fn resident() -> u64 {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096
    }

    #[test]
    fn a_trace_of_any_length_is_read_in_bounded_memory() {
        const EVENTS: u64 = 350_000;
        let mut operators = Operators::default();
        let before = resident();
        let trace = Generated { events: EVENTS, made: 0, text: Vec::new(), at: 0 };
        read(trace, &mut operators).unwrap();
        let grown = resident().saturating_sub(before);
        assert_eq!(operators.events, EVENTS);
        assert!(grown < 24 << 20, "{grown} bytes for 50 MB");

        operators.next_trace();
        let found = operators.top();
        assert_eq!(found.len(), 4_097, "names, and the rest of them");
        assert_eq!(found.iter().map(|of| of.calls.unwrap()).sum::<u64>(), EVENTS);
        assert_eq!(found[0].name, "(other)");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _any_result = of(&bytes);
        }

        #[test]
        fn a_trace_that_is_cut_anywhere_keeps_its_start(at in 0..TRACE.len()) {
            let (found, error) = of(&TRACE.as_bytes()[..at]);
            prop_assert!(found.len() <= 4);
            prop_assert!(!error.is_empty());
        }
    }
}
