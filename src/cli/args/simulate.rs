//! The grammar of `simulate`.

use clap::Args;

#[derive(Debug, Args)]
pub(in crate::cli) struct Simulate {
    /// Address and port to listen on; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8090", value_name = "ADDRESS")]
    pub(in crate::cli) listen: std::net::SocketAddr,
    /// Where webhooks go: the service's address and /hooks/gemini/TOKEN
    #[arg(long, value_name = "URL", env = "WEBHOOK_URL", hide_env_values = true)]
    pub(in crate::cli) webhook_url: Option<String>,
    /// Standard Webhooks secret that signs them
    #[arg(
        long,
        value_name = "SECRET",
        env = "WEBHOOK_SECRET",
        hide_env_values = true
    )]
    pub(in crate::cli) webhook_secret: Option<String>,
    /// Sent along as X-Hook-Secret
    #[arg(
        long,
        value_name = "SECRET",
        env = "WEBHOOK_SHARED_SECRET",
        hide_env_values = true
    )]
    pub(in crate::cli) shared_secret: Option<String>,
    /// The one accepted API key; any key will do without it
    #[arg(
        long,
        value_name = "KEY",
        env = "SIMULATOR_API_KEY",
        hide_env_values = true
    )]
    pub(in crate::cli) api_key: Option<String>,
    /// How long a job runs
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration)]
    pub(in crate::cli) complete_after: std::time::Duration,
    /// Failed attempts in a row that disable a registered webhook; 0 never does
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(in crate::cli) disable_after: u32,
    /// How events are signed for a job's own webhook URLs
    #[arg(long, value_name = "HOW", value_enum, default_value_t = DynamicSigning::Jwt)]
    pub(in crate::cli) dynamic_signing: DynamicSigning,
    /// Claim aud of those tokens; empty leaves it out
    #[arg(long, value_name = "TEXT", default_value = "simulated-audience")]
    pub(in crate::cli) jwt_audience: String,
    /// Claim iss of those tokens; empty leaves it out
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "https://accounts.google.com"
    )]
    pub(in crate::cli) jwt_issuer: String,
    /// How long those tokens are valid
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = humantime::parse_duration)]
    pub(in crate::cli) jwt_lifetime: std::time::Duration,
    /// How long the key set may be cached
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = humantime::parse_duration)]
    pub(in crate::cli) jwks_max_age: std::time::Duration,
}

/// How `simulate` signs events for a job's own webhook URLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum DynamicSigning {
    /// A token, as Google does
    Jwt,
    /// The webhook secret, like the others
    Hmac,
}
