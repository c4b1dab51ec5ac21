//! One function per target: it takes any bytes and panics when a property does not hold.
//!
//! Compiled twice: by libFuzzer's binaries and by `tests/it/corpus.rs`, so that what was found by the
//! one is looked at by the other. Nothing here reaches into the product: public functions only.
//! Inputs are text where they can be, so that a kept one can be read and written by hand.

mod client_address;
mod config;
mod door;
mod envelope;
mod gemini_body;
mod key_set;
mod operation_name;
mod signature;
mod token;

/// A target: its name, which is its corpus's folder, and its body.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// Every target.
pub(crate) const ALL: &[Target] = &[
    ("client_address", client_address::check),
    ("config", config::check),
    ("envelope", envelope::check),
    ("gemini_body", gemini_body::check),
    ("key_set", key_set::check),
    ("operation_name", operation_name::check),
    ("signature", signature::check),
    ("token", token::check),
];

/// The first line, and what follows its line end.
fn first_line(input: &[u8]) -> (&[u8], &[u8]) {
    match input.iter().position(|b| *b == b'\n') {
        Some(at) => {
            let (line, rest) = input.split_at(at);
            (line, rest.get(1..).unwrap_or_default())
        }
        None => (input, &[]),
    }
}
