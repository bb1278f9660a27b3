//! Hands the fuzzer's bytes to [`plimsoll_fuzz::pprof`].

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::pprof(bytes));
