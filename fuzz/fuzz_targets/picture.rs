//! Bytes of a stranger as a data URL, a picture and an animation: see `crates/media/tests/it/reading.rs`.

#![no_main]

#[path = "../../crates/media/tests/it/corruption.rs"]
#[expect(dead_code, reason = "only its checksums are needed here")]
mod corruption;
#[path = "../../crates/media/tests/it/reading.rs"]
#[expect(dead_code, reason = "what came of it is for the test; here it is enough that nothing panicked")]
mod reading;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    reading::read(bytes);
});
