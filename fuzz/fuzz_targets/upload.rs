#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wgoose_hostile::upload(bytes));
