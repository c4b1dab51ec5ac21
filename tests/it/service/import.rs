//! A ledger rebuilt from the provider's list.

use hookledger::simulator::Outcome;
use serde_json::Value;

use crate::support::outside;
use crate::support::process::eventually;
use crate::support::stand::{SOON, Stand, silent};

async fn import(stand: &Stand, more: &[&str]) -> Value {
    let arguments = [&["--json", "operations", "import"], more].concat();
    let ran = stand.cli(&arguments, &[]).await;
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{errors}");
    serde_json::from_slice(&ran.stdout).unwrap()
}

fn counts(said: &Value) -> [u64; 3] {
    ["new", "known", "pruned"].map(|word| said[word].as_u64().unwrap())
}

async fn all_settled(stand: &Stand, but: i64) {
    let open = "SELECT count(*) FROM operations WHERE state = 'pending'";
    eventually("what has ended settles", SOON, async || {
        (outside::count(&stand.db(), open).await == but).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_ledger_takes_the_provider_s_batches_over_and_acts_on_none_that_ended() {
    let mut stand = Stand::up().await;
    for _ in 0..120 {
        stand.gemini.start(silent(false)).unwrap();
    }
    let going_on = stand.gemini.start(silent(true)).unwrap();
    assert_eq!(counts(&import(&stand, &["--dry-run"]).await), [121, 0, 0]);
    assert_eq!(
        outside::count(&stand.db(), "SELECT count(*) FROM operations").await,
        0
    );
    assert_eq!(counts(&import(&stand, &[]).await), [121, 0, 0]);
    assert_eq!(counts(&import(&stand, &[]).await), [0, 121, 0]);
    let pages = stand.gemini.requests();
    let pages = pages.iter().filter(|seen| seen.path.ends_with("/batches"));
    assert_eq!(pages.count(), 6, "two pages each time");
    all_settled(&stand, 1).await;
    assert!(
        stand.sink.by_operation().is_empty(),
        "nobody asked for effects"
    );
    stand.gemini.finish(&going_on, Outcome::Succeeded).unwrap();
    stand.settled(&going_on).await;
    assert_eq!(stand.sink.about(&going_on).len(), 1);
    // Without a service the file is written itself.
    let late = stand.gemini.start(silent(false)).unwrap();
    stand.kill().await;
    let asked = ["--job-kind", "nightly", "--run-effects"];
    assert_eq!(counts(&import(&stand, &asked).await), [1, 121, 0]);
    stand.start().await;
    let operation = stand.settled(&late).await;
    assert_eq!(
        (&operation["job_kind"], &operation["registered"]),
        (&"nightly".into(), &true.into())
    );
    assert_eq!(stand.sink.about(&late).len(), 1);
    assert_eq!(stand.sink.by_operation().len(), 2);
}
