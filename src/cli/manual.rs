//! What a shell or `man` knows of the command line: made from the grammar, so never older than it.

use clap::CommandFactory as _;

use super::args::{Cli, Completions, Man};
use super::failure::Failure;
use super::output;

pub(super) fn completions(args: &Completions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "hookledger", &mut script);
    output::raw(&script)
}

pub(super) fn man(args: &Man) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("cannot write the page: {error}"));
    if let Some(directory) = &args.out {
        let failed = |error: std::io::Error| {
            Failure::failed(format!("cannot write to {}: {error}", directory.display()))
        };
        std::fs::create_dir_all(directory).map_err(failed)?;
        return clap_mangen::generate_to(Cli::command(), directory).map_err(failed);
    }
    let mut page = Vec::new();
    let manual = clap_mangen::Man::new(Cli::command());
    manual.render(&mut page).map_err(failed)?;
    output::raw(&page)
}
