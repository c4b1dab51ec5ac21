//! The `hookledger` program.

use std::process::ExitCode;

use hookledger::cli;

fn main() -> ExitCode {
    #[cfg(feature = "failpoints")]
    hookledger::base::failpoint::read_environment();
    match cli::parse(std::env::args_os()) {
        Ok(line) => cli::start(line),
        Err(code) => code,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn verify_cli() {
        hookledger::cli::command().debug_assert();
    }
}
