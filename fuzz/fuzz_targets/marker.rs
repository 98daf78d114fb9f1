#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    pcapzst::fuzz::marker(bytes);
});
