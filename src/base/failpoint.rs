//! Named instants at which a test may end the process, hold it, or slow it.
//!
//! They exist only in a build with the feature `failpoints`, which nothing but the tests asks for:
//! without it the macro expands to nothing, and not even the names are in the program.
//!
//! `FAILPOINTS="fp-in3=4*off->return"` lets the fifth passage through `fp-in3` end the process at once,
//! as `kill -9` would: no destructor runs, nothing is flushed. The other actions (`sleep(ms)`, `pause`,
//! `panic`, `delay`) are those of the `fail` crate.

/// Marks an instant, or one that counts only under a condition. The name must stand in the list of
/// `docs/TESTING.md`.
macro_rules! failpoint {
    ($name:expr) => {
        #[cfg(feature = "failpoints")]
        $crate::base::failpoint::hit($name);
    };
    ($name:literal, if $counts:expr) => {
        #[cfg(feature = "failpoints")]
        if $counts {
            $crate::base::failpoint::hit($name);
        }
    };
}
pub(crate) use failpoint;

/// Does what `FAILPOINTS` asks for at this instant.
#[cfg(feature = "failpoints")]
pub(crate) fn hit(name: &str) {
    fail::fail_point!(name, |_| std::process::abort());
}

/// Whether `FAILPOINTS` switches this on (`return`): a weakness that only a test may ask for.
#[cfg(feature = "failpoints")]
pub(crate) fn is_on(name: &'static str) -> bool {
    fail::eval(name, |_| ()).is_some()
}

/// Reads `FAILPOINTS` once, for as long as the process lives.
#[cfg(feature = "failpoints")]
pub fn read_environment() {
    std::mem::forget(fail::FailScenario::setup());
}
