//! Deliveries as Gemini sends them: the thin body that names an operation, signed by Standard
//! Webhooks, with the shared header beside it. Every contestant gets the same bytes.

use std::fmt::Write as _;

use anyhow::anyhow;
use clap::Args;
use hookledger::base::clock::Timestamp;
use hookledger::base::secret::Secret;
use hookledger::verify::signing_secret::SigningSecret;

/// What proves a delivery.
#[derive(Debug, Clone, Args)]
pub(crate) struct Proofs {
    /// The signing secret (`whsec_...`).
    #[arg(long)]
    pub(crate) signing: String,
    /// The value of `X-Hook-Secret`.
    #[arg(long)]
    pub(crate) shared: String,
}

/// Writes requests.
pub(crate) struct Writer {
    head: String,
    secret: SigningSecret,
    /// Distinguishes the ids of runs on one file.
    prefix: String,
    body: String,
}

impl Writer {
    pub(crate) fn new(
        host: &str,
        path: &str,
        prefix: &str,
        proofs: &Proofs,
    ) -> anyhow::Result<Self> {
        let secret = SigningSecret::parse(&Secret::new(proofs.signing.clone()))
            .map_err(|why| anyhow!("--signing: {why}"))?;
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\nuser-agent: hookledger-bench\r\n\
             content-type: application/json\r\nx-hook-secret: {}\r\n",
            proofs.shared
        );
        Ok(Self {
            head,
            secret,
            prefix: prefix.to_owned(),
            body: String::new(),
        })
    }

    /// The `webhook-id` of the `n`th delivery.
    pub(crate) fn id(&self, n: u64) -> String {
        format!("msg_{}_{n}", self.prefix)
    }

    /// Puts the `n`th delivery into `into`, signed `now`. It names an operation of its own.
    pub(crate) fn write(&mut self, n: u64, now: Timestamp, into: &mut Vec<u8>) {
        let id = self.id(n);
        self.body.clear();
        // Writing to a string cannot fail.
        let _ = write!(
            self.body,
            "{{\"type\":\"batch.succeeded\",\"version\":\"v1\",\"timestamp\":\"2026-01-22T12:00:00Z\",\
             \"data\":{{\"id\":\"batches/{}-{n}\",\"output_file_uri\":\"files/batch-{}-{n}\"}}}}",
            self.prefix, self.prefix
        );
        let signature = self.secret.sign(&id, now, self.body.as_bytes());
        let mut head = String::with_capacity(256);
        let _ = write!(
            head,
            "webhook-id: {id}\r\nwebhook-timestamp: {}\r\nwebhook-signature: {signature}\r\n\
             content-length: {}\r\n\r\n",
            now.as_seconds(),
            self.body.len()
        );
        into.clear();
        into.extend_from_slice(self.head.as_bytes());
        into.extend_from_slice(head.as_bytes());
        into.extend_from_slice(self.body.as_bytes());
    }
}
