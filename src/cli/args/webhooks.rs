//! The grammar of `webhooks`.

use clap::{Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Webhooks {
    /// Make one; its signing secret goes to `subscription.secrets_file`
    Create {
        /// Where deliveries go instead of where the configuration says
        #[arg(long)]
        uri: Option<String>,
        /// A name for people
        #[arg(long)]
        name: Option<String>,
        /// An event to subscribe to instead of those configured; may be repeated
        #[arg(long = "event", value_name = "TYPE")]
        events: Vec<String>,
        /// Print the signing secret
        #[arg(long)]
        show_secret: bool,
    },
    /// List those of the key's project
    List,
    /// Show one
    Show {
        /// Its id; the configured one when left out
        id: Option<String>,
    },
    /// Change one
    Update {
        /// Its id; the configured one when left out
        id: Option<String>,
        /// Where deliveries go
        #[arg(long)]
        uri: Option<String>,
        /// A name for people
        #[arg(long)]
        name: Option<String>,
        /// An event to subscribe to, in place of those it has; may be repeated
        #[arg(long = "event", value_name = "TYPE")]
        events: Vec<String>,
        /// Whether it delivers
        #[arg(long)]
        state: Option<WebhookState>,
    },
    /// Remove one
    Delete {
        /// Its id
        id: String,
    },
    /// Ask for a delivery that names no operation
    Ping {
        /// Its id; the configured one when left out
        id: Option<String>,
    },
    /// Make a new signing secret for the configured one; old and new are accepted until a delivery
    /// was signed with the new one and 24 hours are over
    Rotate,
    /// Make the provider's record what the configuration says, after showing what differs
    Sync {
        /// Only show what differs
        #[arg(long)]
        dry_run: bool,
        /// Print the signing secret of a new one
        #[arg(long)]
        show_secret: bool,
    },
}

/// Whether a webhook delivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum WebhookState {
    /// It does
    Enabled,
    /// It does not
    Disabled,
}
