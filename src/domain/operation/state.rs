//! Where an operation stands, and which steps the ledger allows.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Kind;

/// Where an operation stands in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationState {
    /// Announced to us before the provider named it.
    Reserved,
    /// Submitted, no terminal state fetched yet.
    Pending,
    /// Ended well, with an output.
    Succeeded,
    /// Ended with an error.
    Failed,
    /// Cancelled at the provider.
    Cancelled,
    /// Not processed in the provider's time.
    Expired,
    /// Ended without output because safety filters removed all of it.
    Filtered,
    /// An interaction that stopped before it was complete.
    Incomplete,
    /// An interaction that ran out of its budget.
    BudgetExceeded,
    /// Closed, unproven: the API keeps saying that it does not exist.
    Gone,
    /// Closed, unproven: done with neither response nor error.
    Anomalous,
}

impl OperationState {
    /// Every state, in the order of a life.
    pub const ALL: [Self; 11] = [
        Self::Reserved,
        Self::Pending,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
        Self::Expired,
        Self::Filtered,
        Self::Incomplete,
        Self::BudgetExceeded,
        Self::Gone,
        Self::Anomalous,
    ];

    /// The word used in tables, JSON and configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Pending => "pending",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Filtered => "filtered",
            Self::Incomplete => "incomplete",
            Self::BudgetExceeded => "budget_exceeded",
            Self::Gone => "gone",
            Self::Anomalous => "anomalous",
        }
    }

    /// Reads the word back.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == word)
    }

    /// Proven by a fetched body; never changes again.
    pub const fn is_settled(self) -> bool {
        matches!(
            self,
            Self::Succeeded
                | Self::Failed
                | Self::Cancelled
                | Self::Expired
                | Self::Filtered
                | Self::Incomplete
                | Self::BudgetExceeded
        )
    }

    /// Closed without proof: looked at daily, and may still settle.
    pub const fn is_closed_unproven(self) -> bool {
        matches!(self, Self::Gone | Self::Anomalous)
    }

    /// Whether `self → to` is a transition the ledger allows.
    pub const fn may_become(self, to: Self) -> bool {
        match self {
            Self::Reserved => matches!(to, Self::Pending),
            Self::Pending => to.is_settled() || to.is_closed_unproven(),
            Self::Gone | Self::Anomalous => to.is_settled() || matches!(to, Self::Pending),
            _ => false,
        }
    }

    /// Whether the provider has a webhook event for an operation of `kind` that ends like this.
    ///
    /// From the subscribable events: `batch.succeeded|failed|expired`,
    /// `interaction.completed|failed`, `video.generated`. Endings outside it (a failed video, a
    /// cancelled batch) are only ever found by reconciliation.
    pub const fn has_event(self, kind: Kind) -> bool {
        match kind {
            Kind::Batch => matches!(self, Self::Succeeded | Self::Failed | Self::Expired),
            Kind::Interaction => matches!(self, Self::Succeeded | Self::Failed),
            Kind::Video => matches!(self, Self::Succeeded),
            Kind::Operation => false,
        }
    }
}

impl fmt::Display for OperationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settled_states_never_change_and_every_word_reads_back() {
        for from in OperationState::ALL {
            assert_eq!(OperationState::from_word(from.as_str()), Some(from));
            for to in OperationState::ALL {
                assert!(
                    !(from.is_settled() && from.may_become(to)),
                    "{from} became {to}"
                );
            }
        }
        assert!(OperationState::Gone.may_become(OperationState::Succeeded));
        assert!(!OperationState::Reserved.may_become(OperationState::Succeeded));
    }

    #[test]
    fn endings_without_an_event_are_known() {
        assert!(OperationState::Succeeded.has_event(Kind::Video));
        assert!(!OperationState::Failed.has_event(Kind::Video));
        assert!(!OperationState::Cancelled.has_event(Kind::Batch));
    }
}
