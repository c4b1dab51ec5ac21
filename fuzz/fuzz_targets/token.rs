#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| hookledger_fuzz::run("token", input));
