//! What was claimed and what arrived, and whether the file agrees.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::claim::{Claim, Found, What};
use super::sink::Receipt;
use crate::cli::failure::Failure;
use crate::domain::operation::OperationName;
use crate::store::{EventFilter, Reader, WorkFilter};

/// More rows than a story leaves behind.
const ROWS: u32 = 500;

/// A story that was told.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Tale {
    /// In the order they were printed.
    pub(super) claims: Vec<Claim>,
    /// Every effect the receiver got.
    pub(super) received: Vec<Receipt>,
}

/// A claim that does not hold.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) claim: Claim,
    /// What is there instead.
    pub(super) instead: String,
}

impl Tale {
    /// Reads every claim back through a connection of its own that can only read; what does not
    /// hold, in order.
    pub(super) async fn verify(&self, database: &Path) -> Result<Vec<Broken>, Failure> {
        let reader = Reader::open(database).await?;
        let mut broken = Vec::new();
        for claim in &self.claims {
            let held = match find(&reader, &claim.operation).await? {
                Some(found) => claim.check(&found).and_then(|()| self.arrived(claim)),
                None => Err("the ledger does not know it".to_owned()),
            };
            if let Err(instead) = held {
                broken.push(Broken {
                    claim: claim.clone(),
                    instead,
                });
            }
        }
        Ok(broken)
    }

    /// A claimed effect must have arrived exactly once, with its key and the claimed ending.
    fn arrived(&self, claim: &Claim) -> Result<(), String> {
        let about = || {
            self.received
                .iter()
                .filter(|r| r.operation == claim.operation)
        };
        match &claim.what {
            What::Delivered { key } => match about().filter(|r| r.key == *key).count() {
                1 if about().count() == 1 => Ok(()),
                _ => Err(format!("the receiver got {} effects", about().count())),
            },
            What::Settled { state, .. } => {
                let other = about().find(|r| r.state != state.as_str());
                other.map_or(Ok(()), |r| Err(format!("the receiver heard {}", r.state)))
            }
            _ => Ok(()),
        }
    }

    /// Writes it down beside the database.
    pub(super) fn save(&self, file: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|_| Failure::failed("the claims are no JSON"))?;
        Ok(std::fs::write(file, text)?)
    }

    /// Reads one that was written down.
    pub(super) fn load(file: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| Failure::failed(format!("cannot read {}: {error}", file.display())))?;
        serde_json::from_str(&text)
            .map_err(|_| Failure::failed(format!("{} holds no claims", file.display())))
    }
}

async fn find(reader: &Reader, name: &str) -> Result<Option<Found>, Failure> {
    let Ok(name) = name.parse::<OperationName>() else {
        return Ok(None);
    };
    let Some(operation) = reader.operation_by_name(&name).await? else {
        return Ok(None);
    };
    let filter = EventFilter {
        segment: Some(name.segment().to_owned()),
        ..EventFilter::default()
    };
    let events = reader.events(&filter, None, ROWS).await?.items;
    let mut work = reader
        .work_items(&WorkFilter::default(), None, ROWS)
        .await?
        .items;
    work.retain(|item| item.operation == name.as_str());
    Ok(Some(Found {
        effects: reader.effects_of(operation.id).await?,
        operation,
        events,
        work,
    }))
}
