//! `restore`: a backup in the place of the ledger.

use serde_json::json;

use super::args::Restore;
use super::failure::Failure;
use super::output::{Output, fields};
use super::progress::Progress;
use crate::base::clock::{Clock as _, SystemClock};
use crate::config::Settings;
use crate::store::restore;

pub(super) async fn run(
    settings: &Settings,
    args: &Restore,
    output: &Output,
) -> Result<(), Failure> {
    let (ledger, now) = (&settings.store.path, SystemClock::new().now());
    let told = Progress::of_bytes("copied");
    let done = restore(&args.file, ledger, args.run_effects, now, told).await?;
    let document = json!({
        "ledger": ledger.display().to_string(),
        "from": args.file.display().to_string(),
        "bytes": done.bytes,
        "operations_open": done.open,
        "effects_held": done.held,
        "effects_withheld": !args.run_effects,
        "old_ledger": done.aside.map(|path| path.display().to_string()),
    });
    output.answer(&document, |_| {
        let names = [
            "ledger",
            "from",
            "bytes",
            "operations_open",
            "effects_held",
            "effects_withheld",
            "old_ledger",
        ];
        let mut text = fields(&document, &names);
        text.push_str("\nStart the service: it looks at every open operation at once.\n");
        if !args.run_effects {
            text.push_str(
                "Effects that were on their way are held, and those of operations that have ended \
                 meanwhile are withheld:\n`hookledger operations retry NAME` sends them, with the \
                 same keys as before.\n",
            );
        }
        text
    })
}
