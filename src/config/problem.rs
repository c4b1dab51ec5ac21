//! What is wrong with a configuration, all of it at once.
//!
//! No text here ever repeats a value: a secret pasted under the wrong key must not reach a log. A
//! problem names its key, says what kind of thing is wrong, and what to write instead.

use std::fmt;

/// One thing that keeps the program from starting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The dotted key, or the variable where no key fits.
    pub key: String,
    /// What is wrong, and where it was set when that is not a default.
    pub what: String,
    /// What to do about it.
    pub fix: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.key, self.what, self.fix)
    }
}

/// Everything that keeps the program from starting, one a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

/// Something legal that an operator should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The dotted key, or the variable where no key fits.
    pub key: String,
    /// What to know.
    pub what: String,
    /// Whether it is about a variable that nobody reads, so that what it should set is not set.
    pub variable: bool,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.what)
    }
}
