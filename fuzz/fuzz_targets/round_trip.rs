#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    pcapzst::fuzz::round_trip(bytes);
});
