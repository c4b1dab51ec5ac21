//! What holds for any body at all.

use proptest::prelude::*;
use serde_json::Value;

use super::batches::finished_batch;
use super::*;

/// Any JSON, made mostly of the keys and words the parsers look at.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "BATCH_STATE_SUCCEEDED",
        "JOB_STATE_FAILED",
        "completed",
        "files/a",
        "9",
        "",
        BATCH,
        VIDEO,
        "2026-01-01T00:00:00Z",
        "https://x.example/files/a:download",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.prop_map(Value::from),
        ".{0,600}".prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "name",
        "id",
        "metadata",
        "state",
        "status",
        "done",
        "response",
        "error",
        "errors",
        "code",
        "message",
        "output",
        "responsesFile",
        "inlinedResponses",
        "batchStats",
        "requestCount",
        "generateVideoResponse",
        "generatedSamples",
        "video",
        "uri",
        "raiMediaFilteredCount",
        "raiMediaFilteredReasons",
        "steps",
        "model",
        "displayName",
        "endTime",
    ]);
    leaf.prop_recursive(5, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..8)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn look_every_way(bytes: &[u8]) -> Result<(), TestCaseError> {
    for name in [BATCH, VIDEO, INTERACTION, OTHER] {
        let name: OperationName = name.parse().unwrap();
        if let Ok(seen) = observe(&name, bytes) {
            prop_assert!(seen.summary.to_string().len() <= MAX_SUMMARY_BYTES);
            if let Observed::Ended(state) = seen.observed {
                prop_assert!(state.is_settled());
            }
        }
        for line in inline_results(name.kind(), bytes).unwrap_or_default() {
            prop_assert!(!line.get().contains('\n'));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        look_every_way(&bytes)?;
    }

    #[test]
    fn arbitrary_json_never_panics(body in any_json()) {
        look_every_way(serde_json::to_string_pretty(&body).unwrap().as_bytes())?;
    }

    #[test]
    fn a_cut_body_is_never_believed(cut in 0_usize..600) {
        let whole = finished_batch().to_string();
        prop_assume!(cut < whole.len());
        let head = whole.get(..cut).unwrap();
        prop_assert!(observe(&BATCH.parse().unwrap(), head.as_bytes()).is_err());
    }
}
