//! What libFuzzer runs. The bodies are plain functions, shared with the test that replays the corpus.

mod targets;

/// Runs the target `name` on `input`; a broken property panics.
///
/// # Panics
/// When a property is broken, or there is no such target.
pub fn run(name: &str, input: &[u8]) {
    let target = targets::ALL.iter().find(|(known, _)| *known == name);
    let (_, check) = target.expect("no such target");
    check(input);
}
